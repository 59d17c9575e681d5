"""Random numbers of a user's operations: never those of numpy's global generator, as with numba."""

from __future__ import annotations

import random
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from numpy.random import rand, seed

torch = pytest.importorskip("torch")

from tests.unit.compat.ffcv.test_compiler import FakeNumba  # noqa: E402
from tests.unit.compat.ffcv.tools import flat, write  # noqa: E402

from headrace.compat.ffcv import Loader  # noqa: E402
from headrace.compat.ffcv.fields import FloatField, RGBImageField  # noqa: E402
from headrace.compat.ffcv.fields.decoders import FloatDecoder, SimpleRGBImageDecoder  # noqa: E402
from headrace.compat.ffcv.fields.rgb_image import ResizedCropRGBImageDecoder, get_random_crop  # noqa: E402
from headrace.compat.ffcv.pipeline.allocation_query import AllocationQuery  # noqa: E402
from headrace.compat.ffcv.pipeline.compiler import Compiler  # noqa: E402
from headrace.compat.ffcv.pipeline.operation import Operation  # noqa: E402
from headrace.compat.ffcv.pipeline.own_random import OwnRandom  # noqa: E402
from headrace.compat.ffcv.transforms import Cutout, RandomHorizontalFlip, RandomResizedCrop, ToTensor  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@pytest.fixture(autouse=True)
def untouched(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Without numba unless a test puts one there; the global generators stay as they are."""
    monkeypatch.setitem(sys.modules, "numba", None)
    np.random.seed(99)
    random.seed(99)
    yield
    assert np.random.rand() == np.random.RandomState(99).rand()
    assert random.random() == random.Random(99).random()
    Compiler.set_enabled(True)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("random")
    return write(folder / "x", {"v": FloatField(), "image": RGBImageField()}, 8, lambda i: (i, flat(i)))


class Compiled:
    """What numba makes of a function: callable, and it knows the function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.py_func = function

    def __call__(self, *arguments: Any) -> Any:
        raise AssertionError("its generator is not the one that is drawn from")


@Compiled
def seed_compiled(number: int) -> None:
    np.random.seed(number)


class Noise(Operation):
    """Seeds with the first sample of a batch, by a compiled function, and draws."""

    def generate_code(self) -> Callable[..., Any]:
        draw = Compiler.compile(_draw)

        def add(values: Any, dst: Any, indices: Any) -> Any:
            seed_compiled(indices[0])
            for i in range(len(values)):
                dst[i] = draw()
            return dst

        add.with_indices = True  # type: ignore[attr-defined]
        return add

    def declare_state_and_memory(self, previous_state: Any) -> tuple[Any, AllocationQuery]:
        return replace(previous_state, jit_mode=True), AllocationQuery(previous_state.shape, previous_state.dtype)


def _draw() -> float:
    return np.random.uniform(1.0, 2.0)


def drawn(path: Path) -> list[float]:
    pipelines = {"v": [FloatDecoder(), Noise(), ToTensor()], "image": None}
    return [float(v) for (batch,) in Loader(path, 4, 2, seed=1, pipelines=pipelines) for v in batch]


EXPECTED = [*np.random.RandomState(0).uniform(1, 2, 4), *np.random.RandomState(4).uniform(1, 2, 4)]


def test_a_seed_reaches_what_runs_without_numba(path: Path) -> None:
    assert drawn(path) == EXPECTED


def test_a_seed_reaches_what_numba_refuses(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numba", FakeNumba(refuses=True))
    with pytest.warns(RuntimeWarning, match="numba cannot compile the operation Noise"):
        assert drawn(path) == EXPECTED


def test_all_ways_to_the_global_generators() -> None:
    def numbers() -> tuple[float, ...]:
        seed(7)
        random.seed(7)
        inner = [np.random.randint(1000) for _ in range(2)]
        return rand(), np.random.rand(), random.random(), random.uniform(0, 1), *inner

    state, other = np.random.RandomState(7), random.Random(7)
    after = [state.randint(1000) for _ in range(2)]
    expected = (state.rand(), state.rand(), other.random(), other.uniform(0, 1), *after)
    assert OwnRandom().copy(numbers)() == expected


def test_functions_that_draw_nothing_stay_as_they_are() -> None:
    def total(values: Any) -> Any:
        return np.sum(values)

    def sums(values: Any) -> Any:
        return total(values)

    own = OwnRandom()
    assert own.copy(total) is total
    assert own.copy(sums) is sums
    assert own.copy(np.sum) is np.sum


def test_attributes_defaults_and_functions_that_call_themselves() -> None:
    def count(n: int, *, step: int = 1) -> float:
        return float(np.random.rand() < 2) + (count(n - step) if n else 0)

    count.is_parallel = True  # type: ignore[attr-defined]
    copy = OwnRandom().copy(count)
    assert copy is not count
    assert copy.is_parallel
    np.random.seed(99)
    assert copy(0) == 1.0


def test_two_of_them_are_not_the_same() -> None:
    assert OwnRandom().copy(_draw)() != OwnRandom().copy(_draw)()


def test_disabled_means_as_it_is(path: Path) -> None:
    Compiler.set_enabled(False)
    state = np.random.get_state()
    pipelines = {"v": [FloatDecoder(), Plain(), ToTensor()], "image": None}
    batches = [float(v) for (batch,) in Loader(path, 8, 2, seed=1, pipelines=pipelines) for v in batch]
    assert batches == [*np.random.RandomState(99).rand(8)]
    np.random.set_state(state)


class Plain(Noise):
    def generate_code(self) -> Callable[..., Any]:
        def add(values: Any, dst: Any) -> Any:
            dst[:, 0] = np.random.rand(len(values))
            return dst

        return add


class Invert(Operation):
    def generate_code(self) -> Callable[..., Any]:
        def invert(images: Any, _: Any) -> Any:
            return 255 - images

        return invert

    def declare_state_and_memory(self, previous_state: Any) -> tuple[Any, None]:
        return previous_state, None


def test_transforms_behind_an_operation_of_ones_own(path: Path) -> None:
    """They draw what seed and epoch say, as they do in front of it."""
    operations = [Invert(), RandomHorizontalFlip(), Cutout(2), RandomResizedCrop((0.5, 1), (0.9, 1.1), 6), ToTensor()]
    pipelines = {"v": None, "image": [SimpleRGBImageDecoder(), *operations]}
    one, two = (Loader(path, 4, 2, seed=3, pipelines=pipelines) for _ in range(2))
    for _ in range(2):
        assert all(torch.equal(a[0], b[0]) for a, b in zip(one, two, strict=True))


def test_crop_generators_of_ones_own(path: Path) -> None:
    asked = []

    class Decoder(ResizedCropRGBImageDecoder):
        scale, ratio = (0.5, 1.0), (0.9, 1.1)

        @property
        def get_crop_generator(self) -> Callable[..., Any]:
            asked.append(self)
            return lambda height, width, scale, ratio: get_random_crop(height, width, scale, ratio)

    loader = Loader(path, 2, 2, seed=1, pipelines={"v": None, "image": [Decoder((4, 4)), ToTensor()]})
    assert [batch[0].shape for batch in loader] == [(2, 4, 4, 3)] * 4
    assert 1 <= len(asked) <= 2  # two threads may ask
