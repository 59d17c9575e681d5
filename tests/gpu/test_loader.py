"""The loader with a GPU: order, seeds, resuming, workers, ranks, processes, memory, errors."""

from __future__ import annotations

import gc
import pickle
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.gpu.tools import assert_same_batches, pair, same
from tests.unit.loader.jpegs import NCHW, Files, loader
from tests.unit.loader.tools import CROP, damage, run_script

import headrace as hr
from headrace import ops
from headrace._native import NativeError
from headrace.errors import DeviceError
from headrace.types import ImageSpans

if TYPE_CHECKING:
    from pathlib import Path

torch: Any = pytest.importorskip("torch")
PIPELINE = [
    ops.RandomResizedCrop(64),
    ops.RandomHorizontalFlip(),
    ops.Normalize([120] * 3, [60] * 3, dtype="float16"),
    NCHW,
]


def native_of(loader: hr.Loader) -> Any:
    assert loader._gpu.decoder is not None
    return loader._gpu.decoder.native()


@pytest.mark.parametrize("workers", [1, 2, 5])
@pytest.mark.parametrize("ahead", [1, 3, 8])
@pytest.mark.parametrize("batch_size", [1, 7, 24])
def test_any_number_of_workers_and_batches(large: Files, workers: int, ahead: int, batch_size: int) -> None:
    found, expected = pair(
        large.indexed, PIPELINE, workers=workers, batches_ahead=ahead, batch_size=batch_size, seed=workers
    )
    assert_same_batches(found, expected, epochs=3)


@pytest.mark.parametrize("layout", ["NCHW", "channels_last"])
@pytest.mark.parametrize("ahead", [1, 3])
def test_small_batches_are_made_together(
    large: Files, layout: Any, ahead: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.loader.groups._ALIGNED", 1)
    pipeline = [*PIPELINE[:-1], ops.ToLayout(layout)]
    found, expected = pair(large.indexed, pipeline, batch_size=4, batches_ahead=ahead, drop_last=False)
    assert found._group_size() == ahead + 1
    assert_same_batches(found, expected, epochs=2)


def test_pictures_that_grow_from_epoch_to_epoch(large: Files) -> None:
    growing = [ops.RandomResizedCrop({0: 32, 1: (48, 40), 2: 96}), ops.RandomHorizontalFlip(), ops.Cutout(8), NCHW]
    found, expected = pair(large.indexed, growing, batch_size=5)
    assert_same_batches(found, expected, epochs=3)
    assert next(iter(expected)).image.shape == (5, 3, 96, 96)


def test_the_gpu_is_the_default(large: Files) -> None:
    found = hr.Loader(large.indexed, 8, device="cuda", pipelines={"image": PIPELINE})
    assert "GPU: cuda:0 makes image" in found.plan()
    batch = next(iter(found))
    assert batch.image.is_cuda
    assert batch.image.dtype == torch.float16
    assert found.stats.jpegs["gpu"] > 0


def test_every_output(path: Path) -> None:
    found = hr.Loader(path, 5, device="cuda", jpeg="gpu", pipelines={"image": CROP}, drop_last=False)
    expected = hr.Loader(path, 5, jpeg="window", pipelines={"image": CROP}, drop_last=False)
    assert_same_batches(found, expected)
    assert same(found[2].image, expected[2].image)


def test_branches_and_modules(large: Files) -> None:
    branches = {
        "large": [ops.RandomResizedCrop(48, share="view"), NCHW, ops.ToDtype("float32")],
        "half": [ops.RandomResizedCrop(24, share="view"), ops.ToDtype("float32"), NCHW, torch.nn.AvgPool2d(2)],
        "python": [ops.Resize(9), ops.Apply(lambda images: images[:, ::-1].copy(), "turn")],
    }
    found = loader(large.indexed, [branches], device="cuda")
    expected = loader(large.indexed, [branches], device="cpu")
    for a, b in zip(found, expected, strict=True):
        assert torch.equal(a.large.cpu(), b.large)
        assert torch.allclose(a.half.cpu(), b.half)
        assert torch.equal(a.python.cpu(), b.python)


def test_channels_last_stays_channels_last(large: Files) -> None:
    found, expected = pair(large.indexed, [ops.RandomResizedCrop(32), ops.ToLayout("channels_last")])
    for a, b in zip(found, expected, strict=True):
        assert a.image.is_contiguous(memory_format=torch.channels_last)
        assert same(a.image, b.image)


@pytest.mark.parametrize("order", ["sequential", "random", "quasi_random"])
def test_a_state_goes_on_elsewhere(large: Files, order: str) -> None:
    for jpegs in (("gpu", "window"), ("window", "gpu")):
        first, second = (
            loader(large.indexed, PIPELINE, batch_size=3, order=order, jpeg=jpeg, device="cuda") for jpeg in jpegs
        )
        batches = iter(first)
        next(batches), next(batches)
        second.load_state_dict(first.state_dict())
        for a, b in zip(second, batches, strict=True):
            assert torch.equal(a.image, b.image)
            assert torch.equal(a.label, b.label)


def test_a_copy(large: Files) -> None:
    found, expected = pair(large.indexed, PIPELINE)
    assert_same_batches(pickle.loads(pickle.dumps(found)), expected)


def test_damaged_samples_are_replaced(path: Path, tmp_path: Path) -> None:
    broken = damage(path, tmp_path / "y.beton", images=[3, 20])
    options: dict[str, Any] = {"pipelines": {"image": CROP}, "on_error": "skip", "order": "random"}
    found = hr.Loader(broken, 5, device="cuda", jpeg="gpu", **options)
    expected = hr.Loader(broken, 5, jpeg="window", **options)
    assert_same_batches(found, expected)
    assert sorted(map(str, found.errors)) == sorted(map(str, expected.errors))


def test_reading_ahead(large: Files) -> None:
    found, expected = pair(large.indexed, PIPELINE, order="quasi_random", cache="32MB")
    assert_same_batches(found, expected, epochs=2)


# -- streams --------------------------------------------------------------------------------------------------------


def busy(matrix: Any) -> Any:
    """Some milliseconds of work on the current stream."""
    for _ in range(10):
        matrix = (matrix @ matrix).clamp(-1, 1)
    return matrix


def check_while_busy(path: Path, stream: Any, *, is_kept: bool = False) -> None:
    """Batches that are used long after they were let go hold what they held."""
    found, expected = pair(path, PIPELINE, batch_size=4, batches_ahead=2)
    wanted = [batch.image for _ in range(3) for batch in expected]
    copies, kept = [], []
    with torch.cuda.stream(stream):
        matrix = torch.randn(2048, 2048, device="cuda")
        for _ in range(3):
            for batch in found:
                matrix = busy(matrix)  # the stream is far behind the loop
                copies.append(batch.image.clone())
                kept += [batch.image] if is_kept else []
                del batch
    torch.cuda.synchronize()
    for copy, array in zip(copies, wanted, strict=True):
        assert same(copy, array)
    for tensor, array in zip(kept, wanted, strict=is_kept):
        assert same(tensor, array)


def test_no_batch_is_overwritten_while_the_default_stream_is_busy(large: Files) -> None:
    check_while_busy(large.indexed, torch.cuda.default_stream())


def test_no_batch_is_overwritten_while_another_stream_is_busy(large: Files) -> None:
    check_while_busy(large.indexed, torch.cuda.Stream())
    check_while_busy(large.indexed, torch.cuda.Stream(), is_kept=True)


def test_a_consumer_on_the_stream_of_the_memory(large: Files) -> None:
    found, expected = pair(large.indexed, PIPELINE, batch_size=4, batches_ahead=1)
    found[0]  # makes the stream
    wanted = [batch.image for _ in range(3) for batch in expected]
    copies = []
    with torch.cuda.stream(found._output._memory_stream):  # torch has 32 streams: a consumer may get the same
        matrix = torch.randn(2048, 2048, device="cuda")
        for _ in range(3):
            for batch in found:
                matrix = busy(matrix)
                copies.append(batch.image.clone())
                del batch
    torch.cuda.synchronize()
    assert all(same(a, b) for a, b in zip(copies, wanted, strict=True))


def test_modules_read_batches_that_are_not_overwritten(large: Files) -> None:
    class Slow(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.matrix = torch.randn(2048, 2048, device="cuda")

        def forward(self, images: Any) -> Any:
            self.matrix = busy(self.matrix)
            return images + 1

    found = loader(large.indexed, [*PIPELINE, Slow()], device="cuda", jpeg="gpu", batch_size=4, batches_ahead=1)
    expected = loader(large.indexed, PIPELINE, jpeg="window", batch_size=4)
    for _ in range(3):
        for a, b in zip(found, expected, strict=True):
            assert same(a.image, b.image + np.float16(1))


# -- memory ---------------------------------------------------------------------------------------------------------


def allocated() -> int:
    """Bytes of tensors that live."""
    gc.collect()
    torch.cuda.synchronize()
    torch.empty(1, device="cuda")  # now torch sees what other streams are done with
    return int(torch.cuda.memory_allocated())


def test_memory_does_not_grow(large: Files) -> None:
    found = loader(large.indexed, PIPELINE, device="cuda", jpeg="gpu", batch_size=4)
    for _ in range(3):
        list(found)
    tensors, own = allocated(), native_of(found).device_bytes
    for _ in range(10):
        list(found)
    assert allocated() <= tensors
    assert native_of(found).device_bytes <= 2 * own  # a slot that had small batches may have got larger ones


def test_too_little_memory_is_told_and_can_be_given(large: Files) -> None:
    found, expected = pair(large.indexed, [ops.Resize(1024), ops.ToDtype("float32")], batch_size=24)
    found[0]  # the driver is open, and has what it needs
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    free, _ = torch.cuda.mem_get_info()
    held = torch.empty(max(0, free - (100 << 20)), dtype=torch.uint8, device="cuda")
    with pytest.raises(DeviceError, match=r"cuda:0.*batch"):
        list(found)
    del held
    torch.cuda.empty_cache()
    found.set_epoch(0)
    assert_same_batches(found, expected)


def test_two_loaders_at_a_time(large: Files) -> None:
    one, expected_one = pair(large.indexed, PIPELINE, batch_size=5, seed=1)
    two, expected_two = pair(large.raw, PIPELINE, batch_size=5, seed=2)
    for a, b, c, d in zip(one, two, expected_one, expected_two, strict=True):
        assert same(a.image, c.image)
        assert same(b.image, d.image)


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="there is one GPU")
def test_another_gpu(large: Files) -> None:
    found = loader(large.indexed, PIPELINE, device="cuda:1", jpeg="gpu")
    expected = loader(large.indexed, PIPELINE, jpeg="window")
    assert_same_batches(found, expected)
    assert found[0].image.device == torch.device("cuda", 1)


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="there is one GPU")
def test_the_gpu_of_this_process(large: Files) -> None:
    code = """
        import os, sys
        import torch
        import headrace as hr
        from headrace import ops

        os.environ["LOCAL_RANK"] = "1"
        loader = hr.Loader(sys.argv[1], 4, device="cuda", jpeg="gpu", pipelines={"image": [ops.Resize(32)]})
        assert next(iter(loader)).image.device == torch.device("cuda", 1)
        """
    done = run_script(code, large.indexed, timeout_s=150)
    assert done.returncode == 0, done.stderr


# -- processes ------------------------------------------------------------------------------------------------------


def test_a_process_may_fork_before_the_first_batch_and_not_after(large: Files) -> None:
    code = """
        import os, sys
        import headrace as hr
        from headrace import ops

        loader = hr.Loader(sys.argv[1], 4, device="cuda", jpeg="gpu", pipelines={"image": [ops.Resize(32)]})

        def child():
            pid = os.fork()
            if pid:
                return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            code = 3
            try:
                code = 0 if sum(float(batch.image.float().sum()) for batch in loader) > 0 else 4
            except RuntimeError as error:  # of ours, or of torch
                print(error, file=sys.stderr)
                code = 1 if "fork" in str(error) else 2
            finally:
                os._exit(code)

        first = child()
        here = len(list(loader))
        print(first, here > 0, child())
    """
    done = run_script(code, large.indexed, timeout_s=150)
    assert done.stdout.split() == ["0", "True", "1"], done.stderr


def test_a_loop_that_is_left_early_and_the_end_of_the_interpreter(large: Files) -> None:
    code = """
        import sys
        import headrace as hr
        from headrace import ops

        loader = hr.Loader(sys.argv[1], 2, device="cuda", jpeg="gpu", pipelines={"image": [ops.Resize(32)]})
        kept = next(iter(loader)).image
        batches = iter(loader)
        next(batches)
        print("done")
    """
    done = run_script(code, large.indexed, timeout_s=150)
    assert (done.stdout, done.returncode) == ("done\n", 0), done.stderr
    assert "Error" not in done.stderr


# -- the native side ------------------------------------------------------------------------------------------------


def test_wrong_arrays_are_refused(large: Files) -> None:
    found = loader(large.raw, [ops.Resize(8)], device="cuda", jpeg="gpu")
    native, dataset = native_of(found), found.dataset
    spans = dataset.image_spans(np.arange(2), "image")
    assert isinstance(spans, ImageSpans)
    options = hr._native.LoadOptions()
    crops = np.array([[0, 0, 20, 20]] * 2, np.int32)

    def load(out: Any) -> None:
        native.load(spans, crops, None, out, options)

    load(torch.empty((2, 8, 8, 3), dtype=torch.uint8, device="cuda"))
    with pytest.raises(NativeError, match="out must lie on the CUDA device 0, not on device 0 of DLPack's type 1"):
        load(np.empty((2, 8, 8, 3), np.uint8))
    with pytest.raises(NativeError, match="out must be C-contiguous, and has gaps"):
        load(torch.empty((2, 8, 8, 4), dtype=torch.uint8, device="cuda")[..., :3])
    with pytest.raises(NativeError, match="out must have 4 axes, not 3"):
        load(torch.empty((8, 8, 3), dtype=torch.uint8, device="cuda"))
    with pytest.raises(NativeError, match="out has room for 3 images, not for 2"):
        load(torch.empty((3, 8, 8, 3), dtype=torch.uint8, device="cuda"))
    with pytest.raises(NativeError, match="out must be uint8, float16 or float32"):
        load(torch.empty((2, 8, 8, 3), dtype=torch.int32, device="cuda"))
    with pytest.raises(NativeError, match=r"out must have the shape \(images, height, width, 3\)"):
        load(torch.empty((2, 3, 8, 8), dtype=torch.uint8, device="cuda"))


def test_memory_of_its_own(large: Files) -> None:
    native = native_of(loader(large.raw, [ops.Resize(8)], device="cuda", jpeg="gpu"))
    for dtype in ("uint8", "float16", "float32"):
        tensor = torch.from_dlpack(native.empty((4, 5, 6), dtype))
        assert (tensor.shape, tensor.dtype, tensor.is_cuda) == ((4, 5, 6), getattr(torch, dtype), True)
        tensor.fill_(3)
        assert float(tensor.float().sum()) == 360
        torch.cuda.synchronize()
    with pytest.raises(NativeError, match="unknown dtype 'int3'"):
        native.empty((4,), "int3")
    with pytest.raises(NativeError, match="larger than any memory"):
        native.empty((1 << 40, 1 << 40), "uint8")
