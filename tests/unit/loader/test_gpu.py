"""What the GPU does of a loader's work, with a GPU that is none: the choice, its errors, what stays the same."""

from __future__ import annotations

import os
import pickle
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.unit.loader.fake_gpu import FakeGpu
from tests.unit.loader.jpegs import CROPS, NCHW, OTHER_KINDS, UNSCALED, WINDOWED, Files, counts, loader
from tests.unit.loader.tools import CROP, contents, damage, values_of

import headrace as hr
from headrace import ops
from headrace._native import ImageLoader, LoadOptions, NativeError, gpu_can, gpu_driver_is_open, gpu_kernels, step_kinds
from headrace.errors import DeviceError
from headrace.loader import fused

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> FakeGpu:
    """In place of the real one."""
    fake = FakeGpu()
    fake.install(monkeypatch)
    return fake


def on_gpu(path: Path, pipeline: list[Any], **options: Any) -> hr.Loader:
    return loader(path, pipeline, **{"device": "cuda", "jpeg": "gpu"} | options)


def lines_of(loader: hr.Loader) -> list[str]:
    return [line for line in loader.plan().splitlines() if line.startswith("GPU: ")]


def native_error(code: str, detail: str) -> NativeError:
    error = NativeError(detail)
    error.code, error.detail = code, detail
    return error


# -- the same batches -----------------------------------------------------------------------------------------------

PIPELINES = (
    CROPS
    | UNSCALED
    | {
        "channels last": [ops.RandomResizedCrop(24), ops.ToLayout("channels_last")],
        "growing": [ops.RandomResizedCrop({0: 20, 1: 24}), ops.RandomHorizontalFlip(), ops.Cutout(4)],
        "float": [ops.Resize(20), ops.Normalize([9] * 3, [8] * 3), NCHW],
    }
)


@pytest.mark.parametrize("name", PIPELINES)
def test_batches_are_those_of_the_cpu(large: Files, gpu: FakeGpu, name: str) -> None:
    found = on_gpu(large.indexed, PIPELINES[name])
    expected = loader(large.indexed, PIPELINES[name], jpeg="window")
    assert [contents(found) for _ in range(2)] == [contents(expected) for _ in range(2)]
    assert gpu.batches == 2 * len(found)
    assert gpu.opened == [(0, b"kernels")]


def test_jpegs_are_counted(large: Files, gpu: FakeGpu) -> None:
    found = on_gpu(large.indexed, CROPS["random"])
    list(found)
    assert counts(found) == {"gpu": len(WINDOWED), "libjpeg_by_kind": len(OTHER_KINDS)}
    assert found.stats.jpegs["window"] == 0
    raw = on_gpu(large.raw, CROPS["random"])
    list(raw)
    assert counts(raw) == {}


def test_the_calls_and_the_copies_are_timed(large: Files, gpu: FakeGpu) -> None:
    found = on_gpu(large.indexed, CROPS["random"])
    list(found)
    assert found.stats.stages["gpu"] > 0
    assert found.stats.stages["copy"] > 0
    assert found.stats.native_s == 0  # the CPU has decoded nothing by itself
    assert "gpu" in str(found.stats)


def test_a_loader_does_not_tune_itself_there(large: Files, gpu: FakeGpu) -> None:
    on_the_gpu = on_gpu(large.indexed, CROPS["random"], workers="auto", batches_ahead="auto")
    assert not on_the_gpu._tuner.is_free
    on_the_cpu = loader(large.indexed, CROPS["random"], jpeg="window", workers="auto", batches_ahead="auto")
    assert on_the_cpu._tuner.is_free


def test_the_gpu_is_the_default_where_batches_go_there(large: Files, gpu: FakeGpu) -> None:
    for path in (large.indexed, large.raw):
        found = hr.Loader(path, 4, device="cuda:1", pipelines={"image": CROP})
        assert found.options.jpeg == "auto"
        assert lines_of(found)[0].startswith("GPU: cuda:1 makes image; what it does not decode (no index, progressive")
        assert "image: one native call on the GPU (decode, RandomResizedCrop," in found.plan()
        assert contents(found) == contents(hr.Loader(path, 4, pipelines={"image": CROP}))
        assert gpu.opened.pop() == (1, b"kernels")


def test_nothing_is_said_of_gpus_where_there_is_none(large: Files) -> None:
    found = hr.Loader(large.indexed, 4, pipelines={"image": CROP})
    assert lines_of(found) == []
    assert "on the GPU" not in found.plan()
    list(found)
    assert counts(found).keys() == {"window", "libjpeg_by_kind"}


def test_other_outputs_stay_as_they_are(path: Path, gpu: FakeGpu) -> None:
    options: dict[str, Any] = {"pipelines": {"image": CROP}, "collate": "pad", "drop_last": False}
    assert contents(hr.Loader(path, 5, device="cuda", **options)) == contents(hr.Loader(path, 5, **options))
    assert gpu.batches == 8


def test_a_batch_by_its_number(large: Files, gpu: FakeGpu) -> None:
    found, expected = on_gpu(large.indexed, CROPS["random"]), loader(large.indexed, CROPS["random"])
    assert values_of(found[1]) == values_of(expected[1])
    assert values_of(found[-1]) == values_of(expected[-1])
    assert gpu.batches == 2


class Half:
    """Looks like a module of torch."""

    def forward(self, value: Any) -> Any:
        return value / 2

    __call__ = forward

    def state_dict(self) -> dict[str, Any]:
        return {}


def test_modules_follow_the_gpu(large: Files, gpu: FakeGpu) -> None:
    found = on_gpu(large.indexed, [*CROPS["random"], Half()])
    expected = loader(large.indexed, CROPS["random"])
    assert all(np.array_equal(a.image, b.image / 2) for a, b in zip(found, expected, strict=True))
    assert gpu.batches == len(found)


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("ahead", [1, 2, 7])
def test_any_number_of_workers_and_batches(large: Files, gpu: FakeGpu, workers: int, ahead: int) -> None:
    options: dict[str, Any] = {"workers": workers, "batches_ahead": ahead, "batch_size": 3}
    expected = contents(loader(large.indexed, CROPS["random"], batch_size=3))
    assert contents(on_gpu(large.indexed, CROPS["random"], **options)) == expected


def test_four_batches_are_under_way(large: Files, gpu: FakeGpu) -> None:
    gpu.pause_s = 0.02
    list(on_gpu(large.indexed, CROPS["random"], batch_size=2))
    assert gpu.together == 4


# -- branches -------------------------------------------------------------------------------------------------------

BRANCHES = {
    "large": [ops.RandomResizedCrop(24, share="view"), NCHW],
    "small": [ops.RandomResizedCrop(8, share="view"), ops.Apply(lambda images: images[:, ::-1], "turn")],
    "whole": [ops.Resize(10)],
}


def test_each_branch_that_is_one_run_goes_to_the_gpu(large: Files, gpu: FakeGpu) -> None:
    found = loader(large.indexed, [BRANCHES], device="cuda")
    assert contents(found) == contents(loader(large.indexed, [BRANCHES]))
    assert gpu.batches == 2 * len(found)
    plan = found.plan()
    assert "  large: one native call on the GPU (decode, RandomResizedCrop" in plan
    assert "  small: one native call (decode, RandomResizedCrop" in plan
    assert lines_of(found)[0].startswith("GPU: cuda:0 makes large, whole; ")
    assert lines_of(found)[1:] == ["GPU: does not make small: turn runs in Python"]
    with pytest.raises(ValueError, match="jpeg='gpu', but 'small' cannot be made there: turn runs in Python"):
        on_gpu(large.indexed, [BRANCHES])


# -- what the GPU does not do ---------------------------------------------------------------------------------------

CPU_ONLY: dict[str, tuple[list[Any], str]] = {
    "python": ([*CROP, ops.Apply(lambda images: images, "look")], "look runs in Python"),
    "dtype": ([*CROP, ops.ToDtype("int32")], "ToDtype runs in Python"),
    "two runs": ([*CROP, ops.RandomBrightness(0.5), ops.RandomCrop(8)], "the ops are more than one native call"),
    "shared": ([*CROP, {"a": [], "b": []}], "its branches share what is decoded"),
    "reduced": ([ops.RandomResizedCrop(8, reduced=True)], "reduced=True is the CPU's"),
}


@pytest.mark.parametrize("name", CPU_ONLY)
def test_pipelines_that_need_the_cpu(large: Files, gpu: FakeGpu, name: str) -> None:
    pipeline, reason = CPU_ONLY[name]
    found = loader(large.indexed, pipeline, device="cuda")
    outputs = "a, b" if name == "shared" else "image"
    assert lines_of(found) == [f"GPU: does not make {outputs}: {reason}"]
    assert contents(found) == contents(loader(large.indexed, pipeline))
    assert gpu.batches == 0
    with pytest.raises(ValueError, match=rf"jpeg='gpu', but '.' cannot be made there|{reason}\. With jpeg='auto'"):
        on_gpu(large.indexed, pipeline)


def test_files_that_have_nothing_for_a_gpu(large: Files, gpu: FakeGpu) -> None:
    reason = f"{large.plain} has no tile indices and no raw pictures; make indices with: headrace index {large.plain}"
    found = loader(large.plain, CROPS["random"], device="cuda")
    assert lines_of(found) == [f"GPU: does not make image: {reason}"]
    list(found)
    assert gpu.opened == []
    with pytest.raises(ValueError, match="has no tile indices and no raw pictures; make indices with: headrace index"):
        on_gpu(large.plain, CROPS["random"])


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"jpeg": "window"}, "jpeg='window'"),
        ({"jpeg": "slice"}, "jpeg='slice'"),
        ({"jpeg": "libjpeg"}, "jpeg='libjpeg'"),
        ({"precision": "fast"}, "precision='fast' is the CPU's"),
    ],
)
def test_options_that_leave_the_work_to_the_cpu(
    large: Files, gpu: FakeGpu, options: dict[str, Any], reason: str
) -> None:
    found = loader(large.indexed, CROPS["random"], device="cuda", **options)
    assert lines_of(found) == [f"GPU: does not make image: {reason}"]
    list(found)
    assert counts(found).get("gpu", 0) == gpu.batches == 0


def test_a_build_without_kernels(large: Files, gpu: FakeGpu) -> None:
    gpu.kernels = None
    found = loader(large.indexed, CROPS["random"], device="cuda")
    assert "this build of headrace has no kernels for GPUs; install a wheel" in lines_of(found)[0]
    list(found)
    assert gpu.opened == []
    with pytest.raises(ValueError, match=r"jpeg='gpu', but 'image' cannot be made there: this build .* no kernels"):
        on_gpu(large.indexed, CROPS["random"])


def test_devices_that_are_no_gpu_of_nvidia(large: Files, gpu: FakeGpu) -> None:
    with pytest.raises(ValueError, match=r"batches do not go to a GPU of NVIDIA .*device=None\)"):
        on_gpu(large.indexed, CROPS["random"], device=None)
    gpu.is_nvidia = False
    with pytest.raises(ValueError, match=r"batches do not go to a GPU of NVIDIA .*device='xpu'\)"):
        on_gpu(large.indexed, CROPS["random"], device="xpu")
    assert lines_of(loader(large.indexed, CROPS["random"], device="xpu")) == []


def test_no_pictures(path: Path, gpu: FakeGpu) -> None:
    with pytest.raises(ValueError, match="jpeg='gpu', but there are no pictures: no field of images"):
        hr.Loader(path, 4, device="cuda", jpeg="gpu", pipelines={"image": None})
    assert lines_of(hr.Loader(path, 4, device="cuda", pipelines={"image": None})) == []


def test_the_gpu_is_always_exact(large: Files) -> None:
    with pytest.raises(ValueError, match="precision='fast' needs jpeg='window', got jpeg='gpu': the GPU is exact"):
        loader(large.indexed, CROPS["random"], jpeg="gpu", precision="fast")


# -- the driver -----------------------------------------------------------------------------------------------------


def test_the_driver_is_opened_by_the_first_batch(large: Files, gpu: FakeGpu) -> None:
    found = on_gpu(large.indexed, CROPS["random"])
    found.plan()
    assert gpu.opened == []
    list(found)
    list(found)
    assert len(gpu.opened) == 1


def test_a_device_that_does_not_do_is_told_at_once_where_the_driver_is_open(large: Files, gpu: FakeGpu) -> None:
    gpu.is_driver_open = True
    on_gpu(large.indexed, CROPS["random"])
    assert len(gpu.opened) == 1
    gpu.fail_open = native_error("unsupported", "the kernels were not built for this kind of GPU")
    with pytest.raises(ValueError, match="jpeg='gpu', but cuda:0 does not do: the kernels were not built for this"):
        on_gpu(large.indexed, CROPS["random"])
    found = loader(large.indexed, CROPS["random"], device="cuda")
    expected = "GPU: makes no pictures, for cuda:0 does not do: the kernels were not built for this kind of GPU"
    assert lines_of(found) == [expected]
    assert contents(found) == contents(loader(large.indexed, CROPS["random"]))
    assert gpu.batches == 0


def test_a_device_that_does_not_do_is_told_by_the_first_batch_elsewhere(large: Files, gpu: FakeGpu) -> None:
    gpu.fail_open = native_error("unsupported", "no driver")
    insisting, other = (loader(large.indexed, CROPS["random"], device="cuda", jpeg=jpeg) for jpeg in ("gpu", "auto"))
    with pytest.raises(ValueError, match="jpeg='gpu', but cuda:0 does not do: no driver"):
        list(insisting)
    assert contents(other) == contents(loader(large.indexed, CROPS["random"]))
    assert lines_of(other) == ["GPU: makes no pictures, for cuda:0 does not do: no driver"]


@pytest.mark.parametrize("jpeg", ["gpu", "auto"])
def test_a_driver_that_fails_is_an_error(large: Files, gpu: FakeGpu, jpeg: str) -> None:
    gpu.fail_open = native_error("io_error", "the GPU's driver says: unknown error")
    with pytest.raises(DeviceError, match="cuda:0: the GPU's driver says: unknown error"):
        list(on_gpu(large.indexed, CROPS["random"], jpeg=jpeg))


def test_a_gpu_without_memory_is_an_error_at_the_place_of_the_batch(large: Files, gpu: FakeGpu) -> None:
    batches = iter(on_gpu(large.indexed, CROPS["random"], batch_size=2, batches_ahead=1))
    next(batches)
    gpu.fail_load = native_error("out_of_memory", "batches of 1 would fit")
    with pytest.raises(DeviceError, match="cuda:0, field 'image': batches of 1 would fit"):
        list(batches)


def test_a_process_may_fork_before_the_first_batch_and_not_after(large: Files, gpu: FakeGpu) -> None:
    found = on_gpu(large.indexed, CROPS["random"])

    def child() -> int:
        pid = os.fork()
        if pid:
            return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        code = 3
        try:
            code = 0 if len(list(found)) else 4
        except DeviceError as error:
            code = 1 if "was forked from one that uses the GPU" in str(error) else 2
        finally:
            os._exit(code)

    assert child() == 0
    list(found)
    assert child() == 1


# -- what goes on -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("jpegs", [("gpu", "window"), ("window", "gpu")])
def test_a_state_goes_on_elsewhere(large: Files, gpu: FakeGpu, jpegs: tuple[str, str]) -> None:
    first, second = (
        loader(large.indexed, CROPS["random"], batch_size=3, jpeg=jpeg, device="cuda" if jpeg == "gpu" else None)
        for jpeg in jpegs
    )
    batches = iter(first)
    next(batches)
    second.load_state_dict(first.state_dict())
    assert contents(second) == [values_of(batch) for batch in batches]


def test_copies_and_parts_use_the_gpu(large: Files, gpu: FakeGpu) -> None:
    found = on_gpu(large.indexed, CROPS["random"])
    copy = pickle.loads(pickle.dumps(found))
    assert copy.options.jpeg == "gpu"
    assert contents(copy) == contents(found)
    part, expected = (each.filter("label", lambda i: i % 3 == 0) for each in (found, loader(large.indexed, CROP)))
    assert part.samples == expected.samples
    before = gpu.batches
    list(part)
    assert gpu.batches == before + len(part)
    none = found.filter("label", lambda i: i < 0)
    assert list(none) == []


def test_damaged_samples(path: Path, gpu: FakeGpu, tmp_path: Path) -> None:
    broken = damage(path, tmp_path / "y.beton", images=[3, 20])
    options: dict[str, Any] = {"pipelines": {"image": CROP}, "on_error": "skip", "order": "random"}
    found, expected = hr.Loader(broken, 5, device="cuda", jpeg="gpu", **options), hr.Loader(broken, 5, **options)
    assert contents(found) == contents(expected)
    assert sorted(map(str, found.errors)) == sorted(map(str, expected.errors))
    assert found.stats.samples_skipped == expected.stats.samples_skipped == 2
    with pytest.raises(hr.errors.CorruptSampleError, match="sample 3, field 'image'"):
        list(hr.Loader(broken, 5, device="cuda", jpeg="gpu", pipelines={"image": CROP}))


# -- the native side, as far as it goes without a GPU -----------------------------------------------------------------


def test_which_runs_the_gpu_can_do() -> None:
    for name in ("area", "bilinear", "bicubic", "lanczos", "nearest", "opencv_area"):
        assert gpu_can(LoadOptions(interpolation=name), [])
    for kind in step_kinds():
        assert gpu_can(LoadOptions(), [kind])
    assert not gpu_can(LoadOptions(fast=True), [])
    assert not gpu_can(LoadOptions(reduced=True), [])
    with pytest.raises(NativeError, match="unknown step 'melt'"):
        gpu_can(LoadOptions(), ["melt"])


def test_steps_are_known_without_a_batch() -> None:
    steps = [
        ops.RandomBrightness(0.3),
        ops.ColorJitter(0.1, 0.1, 0.1, 0.1),
        ops.RandomGrayscale(),
        ops.GaussianBlur(5),
        ops.RandomVerticalFlip(),
        ops.RandomRotate90(),
        ops.RandomTranslate(2),
        ops.Cutout(3),
        ops.RandomErasing(),
        ops.RandAugment(),
        ops.TrivialAugmentWide(),
    ]
    run = fused.FusedRun("image")
    for position, op in enumerate(steps):
        longer = run.extended(fused.KeyedOp(op, position))
        assert longer is not None
        run = longer
    names = run.step_names()
    assert set(names) <= set(step_kinds())
    assert len(names) >= len(steps)


@pytest.mark.skipif(gpu_driver_is_open(), reason="there is a GPU")
def test_a_gpu_that_is_not_there() -> None:
    with pytest.raises(NativeError, match="its driver") as caught:
        hr._native.GpuImageLoader(0, b"no kernels", ImageLoader(1))
    assert caught.value.code == "unsupported"
    with pytest.raises(NativeError, match="cpu must be an ImageLoader"):
        hr._native.GpuImageLoader(0, b"no kernels", 3)  # type: ignore[arg-type]


def test_kernels_are_bytes_or_none() -> None:
    kernels = gpu_kernels()
    assert kernels is None or len(kernels) > 1000
