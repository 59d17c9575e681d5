"""A function of the user's that raises StopIteration is an error; it does not end an epoch or a write."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import headrace
from headrace import ops
from headrace.errors import WriteError

if TYPE_CHECKING:
    from pathlib import Path


def stop(*_: object) -> Any:
    return next(iter(()))


@pytest.fixture
def numbers(tmp_path: Path) -> Path:
    path = tmp_path / "x.beton"
    headrace.write(path, [(i, {"i": i}) for i in range(100)], fields={"n": headrace.Int(), "j": headrace.Json()})
    return path


class Stops(ops.ArrayOp):
    """An op of the user's own."""

    def form(self, before: ops.Form) -> ops.Form:
        return before

    def apply(self, values: Any, draws: ops.Draws) -> Any:
        return stop()


@pytest.mark.parametrize("op", [ops.Apply(stop), Stops()], ids=["function", "op"])
@pytest.mark.parametrize("field", ["n", "j"])
def test_an_op(numbers: Path, op: Any, field: str) -> None:
    loader = headrace.Loader(numbers, 10, pipelines={field: [op]})
    with pytest.raises(RuntimeError, match="StopIteration") as caught:
        list(loader)
    assert isinstance(caught.value.__cause__, StopIteration)
    assert "for the samples [0, 1, 2, 3, ...]" in str(caught.value.__notes__)
    with pytest.raises(RuntimeError, match="StopIteration"):
        loader[0]


def test_an_op_in_the_middle_of_an_epoch(numbers: Path) -> None:
    weights = iter([1.0, 2.0, 3.0])
    loader = headrace.Loader(numbers, 10, pipelines={"n": [ops.Apply(lambda n: n * next(weights))]})
    seen = []
    with pytest.raises(RuntimeError, match="StopIteration"):
        seen += [batch.n for batch in loader]
    assert len(seen) == 0
    assert loader.epoch == 0
    assert loader.state_dict()["samples_used"] == 30


def test_what_the_loader_calls_for_damage(numbers: Path) -> None:
    data = bytearray(numbers.read_bytes())
    data[24 + 2 * 1041] ^= 1  # a number of sample 0
    numbers.write_bytes(data)
    with pytest.raises(RuntimeError, match="StopIteration"):
        list(headrace.Loader(numbers, 10, on_error=stop))


def test_an_order(numbers: Path) -> None:
    def order(n: int, seed: int, epoch: int) -> Any:
        return np.arange(n) if epoch == 0 else stop()

    loader = headrace.Loader(numbers, 10, order=order)
    assert len(list(loader)) == 10
    with pytest.raises(RuntimeError, match="StopIteration"):
        list(loader)


def test_a_module_of_torch(numbers: Path) -> None:
    torch = pytest.importorskip("torch")

    class Module(torch.nn.Module):  # type: ignore[misc, name-defined]
        def forward(self, values: Any) -> Any:
            return stop()

    with pytest.raises(RuntimeError, match="StopIteration"):
        list(headrace.Loader(numbers, 10, device="cpu", pipelines={"n": [Module()]}))


class Samples:
    """A dataset whose sample 30 cannot be had."""

    def __len__(self) -> int:
        return 100

    def __getitem__(self, index: int) -> bytes:
        return stop() if index == 30 else b"%d" % index


class Row(Mapping[str, bytes]):
    """A sample whose value cannot be had."""

    def __getitem__(self, name: str) -> bytes:
        value: bytes = stop()
        return value

    def __len__(self) -> int:
        return 1

    def __iter__(self) -> Iterator[str]:
        return iter(["n"])


class Stubborn(headrace.Json):
    """A field of the user's own that stores nothing."""

    def encode(self, value: Any, index: int) -> Any:
        return stop()


def generated() -> Iterator[bytes]:
    yield b"1"
    yield stop()


@pytest.mark.parametrize("suffix", ["beton", "ffr", "barecat"])
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("kind", ["dataset", "rows", "generator", "field"])
def test_what_is_written(tmp_path: Path, suffix: str, workers: int, kind: str) -> None:
    samples: Any = {"dataset": Samples(), "rows": [Row()] * 20, "generator": generated(), "field": [b"1"] * 20}[kind]
    field = Stubborn() if kind == "field" else headrace.Bytes()
    path = tmp_path / f"x.{suffix}"
    with pytest.raises(WriteError, match="StopIteration"):
        headrace.write(path, samples, fields={"n": field}, workers=workers)
    assert list(tmp_path.iterdir()) == []
