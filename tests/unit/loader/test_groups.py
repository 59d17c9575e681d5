"""Small batches that a GPU makes together, with a GPU that is none: the batches and errors are the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.unit.loader.fake_gpu import FakeGpu
from tests.unit.loader.jpegs import CROPS, Files, loader
from tests.unit.loader.tools import CROP, contents, damage, headrace_threads, values_of

import headrace as hr
from headrace import ops
from headrace.errors import CorruptSampleError
from headrace.loader import groups

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> FakeGpu:
    fake = FakeGpu()
    fake.install(monkeypatch)
    monkeypatch.setattr(groups, "_ALIGNED", 1)  # batches of any size
    return fake


def on_gpu(path: Path, pipeline: list[Any], **options: Any) -> hr.Loader:
    return loader(path, pipeline, **{"device": "cuda", "jpeg": "gpu"} | options)


@pytest.mark.parametrize(("batch_size", "ahead", "expected"), [(256, 3, 4), (512, 3, 2), (64, 7, 8), (128, 1, 2)])
def test_as_many_as_make_1024_pictures_and_fit(batch_size: int, ahead: int, expected: int) -> None:
    assert groups.group_size(batch_size, ahead) == expected


@pytest.mark.parametrize("batch_size", [1024, 4096, 100, 1])
def test_large_batches_and_odd_ones_are_made_alone(batch_size: int) -> None:
    assert groups.group_size(batch_size, 3) == 1


@pytest.mark.parametrize("name", CROPS)
@pytest.mark.parametrize("ahead", [1, 3, 7])
def test_batches_are_those_of_the_cpu(large: Files, gpu: FakeGpu, name: str, ahead: int) -> None:
    found = on_gpu(large.indexed, CROPS[name], batch_size=3, batches_ahead=ahead, drop_last=False)
    expected = loader(large.indexed, CROPS[name], batch_size=3, jpeg="window", drop_last=False)
    assert [contents(found) for _ in range(2)] == [contents(expected) for _ in range(2)]
    assert gpu.batches == 2 * -(-len(found) // (ahead + 1))
    assert not headrace_threads()


def test_python_ops_see_one_batch_at_a_time(path: Path, gpu: FakeGpu) -> None:
    seen: list[int] = []

    def look(labels: Any) -> Any:
        seen.append(len(labels))
        return labels

    pipelines: dict[str, Any] = {"image": CROP, "label": [ops.Apply(look)], "text": None}
    found = contents(hr.Loader(path, 4, device="cuda", pipelines=pipelines))
    assert gpu.batches < len(seen) == len(found)
    assert set(seen) == {4}
    assert found == contents(hr.Loader(path, 4, pipelines=pipelines))


def test_modules_follow(large: Files, gpu: FakeGpu) -> None:
    class Half:
        def forward(self, value: Any) -> Any:
            return value / 2

        __call__ = forward

        def state_dict(self) -> dict[str, Any]:
            return {}

    found, expected = on_gpu(large.indexed, [*CROPS["random"], Half()]), loader(large.indexed, CROPS["random"])
    assert all(np.array_equal(a.image, b.image / 2) for a, b in zip(found, expected, strict=True))


def test_resuming_in_the_middle_of_a_group(large: Files, gpu: FakeGpu) -> None:
    expected = [values_of(batch) for batch in loader(large.indexed, CROPS["random"], batch_size=2)]
    for used in range(1, 6):
        first = on_gpu(large.indexed, CROPS["random"], batch_size=2)
        batches = iter(first)
        for _ in range(used):
            next(batches)
        state = first.state_dict()
        batches.close()  # type: ignore[attr-defined]
        second = on_gpu(large.indexed, CROPS["random"], batch_size=2)
        second.load_state_dict(state)
        assert [values_of(batch) for batch in second] == expected[used:]


@pytest.mark.parametrize("position", [0, 1, 5])
def test_an_error_comes_at_the_place_of_its_batch(tmp_path: Path, large: Files, gpu: FakeGpu, position: int) -> None:
    path = damage(large.indexed, tmp_path / "damaged.beton", images=[2 * position])
    expected = [values_of(batch) for batch in loader(large.indexed, CROPS["random"], batch_size=2, order="sequential")]
    found = []
    batches = iter(on_gpu(path, CROPS["random"], batch_size=2, order="sequential"))
    with pytest.raises(CorruptSampleError, match=f"sample {2 * position}"):
        found.extend(values_of(batch) for batch in batches)
    assert found == expected[:position]
    assert not headrace_threads()


def test_damaged_samples_are_replaced_as_ever(tmp_path: Path, large: Files, gpu: FakeGpu) -> None:
    path = damage(large.indexed, tmp_path / "damaged.beton", images=[1, 4])
    options: dict[str, Any] = {"batch_size": 2, "on_error": "skip"}
    found, expected = on_gpu(path, CROPS["random"], **options), loader(path, CROPS["random"], **options)
    assert contents(found) == contents(expected)
    assert found.stats.samples_skipped == expected.stats.samples_skipped == 2


def test_a_function_for_errors_is_asked_once(tmp_path: Path, large: Files, gpu: FakeGpu) -> None:
    path = damage(large.indexed, tmp_path / "damaged.beton", images=[3])
    asked: list[Any] = []

    def refuse(error: Any) -> None:
        asked.append(error)
        raise error

    with pytest.raises(CorruptSampleError):
        list(on_gpu(path, CROPS["random"], batch_size=2, on_error=refuse))
    assert len(asked) == 1


def test_a_python_op_that_fails_does_so_at_its_batch(path: Path, gpu: FakeGpu) -> None:
    calls: list[int] = []

    def third(labels: Any) -> Any:
        calls.append(0)
        if len(calls) == 3:
            raise StopIteration
        return labels

    pipelines: dict[str, Any] = {"image": CROP, "label": [ops.Apply(third)], "text": None}
    taken = []
    with pytest.raises(RuntimeError, match="raised StopIteration"):
        taken.extend(hr.Loader(path, 4, device="cuda", pipelines=pipelines))
    assert len(taken) == 2


def test_outputs_that_cannot_be_parted_are_made_batch_by_batch(path: Path, gpu: FakeGpu) -> None:
    options: dict[str, Any] = {"pipelines": {"image": CROP}, "collate": "pad", "drop_last": False}
    found = hr.Loader(path, 5, device="cuda", **options)
    assert contents(found) == contents(hr.Loader(path, 5, **options))
    assert gpu.batches == len(found)


def test_a_loop_that_is_left_early_leaves_nothing(large: Files, gpu: FakeGpu) -> None:
    for _ in on_gpu(large.indexed, CROPS["random"], batch_size=2):
        break
    assert not headrace_threads()
