"""What a real GPU shows only when something is wrong with it: little memory, old kernels, wrong arrays, fork."""

from __future__ import annotations

import gc
import os
import re
import threading
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.gpu.conftest import FAKE
from tests.gpu.fake_cuda import host_view
from tests.gpu.tools import assert_same_batches, pair
from tests.helpers import image_file, picture, write_folder
from tests.unit.loader.jpegs import CROPS, Files, loader

import headrace as hr
from headrace import ops
from headrace._native import GpuImageLoader, ImageLoader, LoadOptions, NativeError, gpu_driver_is_open
from headrace.errors import DeviceError

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif(not FAKE, reason="this is for a driver that is none")


class Sized:
    """An array of the native side that knows its size."""

    def __init__(self, memory: Any, size_bytes: int) -> None:
        self.memory, self.size_bytes = memory, size_bytes

    def __dlpack__(self) -> Any:
        return self.memory.__dlpack__()


def native_of(loader: hr.Loader) -> GpuImageLoader:
    assert loader._gpu.decoder is not None
    native = loader._gpu.decoder.native()
    assert native is not None
    return native


def test_too_little_memory(large: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    found, expected = pair(large.indexed, [ops.Resize(64)], batch_size=12)
    monkeypatch.setenv("FAKE_CUDA_BYTES", "400000")  # for an output or two, and nothing that decodes
    with pytest.raises(DeviceError, match=r"cuda:0, field 'image': the GPU has too little memory"):
        list(found)
    monkeypatch.delenv("FAKE_CUDA_BYTES")
    found.set_epoch(0)
    assert_same_batches(found, expected)


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As many as a large batch has."""
    path = tmp_path_factory.mktemp("photos") / "x.beton"
    rows = [(picture(i, 150, 130), i) for i in range(200)]
    hr.write(path, rows, fields={"image": hr.Image(mode="jpg"), "label": hr.Int()})
    return path


def used_bytes() -> int:
    """By loaders of other tests, of the memory that the driver tells of."""
    gc.collect()
    return (1 << 34) - GpuImageLoader(0, b"kernels", ImageLoader(1)).room_bytes


@pytest.mark.parametrize("batch_size", [64, 100])
@pytest.mark.parametrize(("pipeline", "room"), [
    ([ops.Resize(96), ops.ToDtype("float32")], 3 << 20),
    ([ops.Resize(96), ops.ToDtype("float32")], 8 << 20),
    ([ops.Resize(16), ops.Cutout(4)], 1 << 20),
    ([ops.Resize(16), ops.Cutout(4)], 3 << 20),
])  # fmt: skip
def test_the_size_that_is_named_fits(
    photos: Path, pipeline: list[Any], batch_size: int, room: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever does not fit: an array, or what decoding takes."""
    monkeypatch.setenv("FAKE_CUDA_BYTES", str(used_bytes() + room))

    def run(size: int) -> None:
        for _ in loader(photos, pipeline, device="cuda", jpeg="gpu", batch_size=size, batches_ahead=2):
            pass

    with pytest.raises(DeviceError, match=r"A batch of about \d+ pictures? would fit\.$") as caught:
        run(batch_size)
    found = re.search(r"about (\d+) picture", str(caught.value))
    assert found is not None
    caught.value.__traceback__ = None  # which holds the loader
    del caught
    gc.collect()
    fitting = int(found[1])
    assert 0 < fitting < batch_size
    run(fitting)


def test_where_no_picture_fits_it_is_said_what_to_do(photos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = loader(photos, [ops.Resize(96)], device="cuda", jpeg="gpu")
    monkeypatch.setenv("FAKE_CUDA_BYTES", str(used_bytes() + (100 << 10)))
    with pytest.raises(DeviceError, match=r"Give back memory of the GPU, use batches_ahead=1, or decode on the CPU"):
        list(found)


def test_a_folder_has_to_be_packed_first(tmp_path: Path) -> None:
    write_folder(tmp_path, {f"cats/{i}.jpg": image_file(picture(i, 40, 30), "jpeg") for i in range(3)})
    advice = f"pack or convert it into a file that has them, such as: headrace create FILE.beton {tmp_path}"
    assert advice in loader(tmp_path, [ops.Resize(8)], device="cuda", batch_size=2).plan()


def test_other_threads_run_on_while_memory_is_freed(large: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    native = native_of(loader(large.raw, [ops.Resize(8)], device="cuda", jpeg="gpu"))
    arrays = [native.empty((1000,), "uint8") for _ in range(20)]
    del arrays
    returned = native.returned()
    assert returned is not None
    turns: list[float] = []
    is_over = threading.Event()

    def take_turns() -> None:
        while not is_over.wait(0.005):
            turns.append(time.perf_counter())

    other = threading.Thread(target=take_turns)
    other.start()
    monkeypatch.setenv("FAKE_CUDA_FREE_MS", "100")
    start_s = time.perf_counter()
    del returned  # four pieces are more than the decoder keeps
    end_s = time.perf_counter()
    monkeypatch.delenv("FAKE_CUDA_FREE_MS")
    is_over.set()
    other.join()
    assert end_s - start_s > 0.3
    assert sum(start_s + 0.05 < turn < end_s - 0.05 for turn in turns) > 3


def test_kernels_for_other_gpus(large: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    loader(large.indexed, CROPS["random"], device="cuda", jpeg="gpu")[0]
    assert gpu_driver_is_open()
    monkeypatch.setattr("headrace.loader.gpu.gpu_kernels", lambda: b"old ones")
    with pytest.raises(ValueError, match=r"cuda:0 does not do: .*kernels"):
        loader(large.indexed, CROPS["random"], device="cuda", jpeg="gpu")
    found = loader(large.indexed, CROPS["random"], device="cuda")
    assert "GPU: makes no pictures, for cuda:0 does not do: " in found.plan()
    assert_same_batches(found, loader(large.indexed, CROPS["random"]))


def test_gpus_that_do_not_exist() -> None:
    with pytest.raises(NativeError, match="there is no GPU 2; the driver finds 2") as caught:
        GpuImageLoader(2, b"kernels", ImageLoader(1))
    assert caught.value.code == "unsupported"


def test_another_gpu(large: Files) -> None:
    found = loader(large.indexed, CROPS["random"], device="cuda:1", jpeg="gpu")
    assert_same_batches(found, loader(large.indexed, CROPS["random"]))


def test_wrong_arrays_are_refused(large: Files) -> None:
    native, other = (native_of(loader(large.raw, [ops.Resize(8)], device=f"cuda:{n}", jpeg="gpu")) for n in (0, 1))
    spans = loader(large.raw, []).dataset.image_spans(np.arange(2), "image")
    crops = np.array([[0, 0, 20, 20]] * 2, np.int32)

    def load(out: Any, options: LoadOptions | None = None) -> None:
        native.load(spans, crops, None, out, options or LoadOptions())

    load(native.empty((2, 8, 8, 3), "uint8"))
    wrong = {
        "out must lie on the CUDA device 0, not on device 0 of DLPack's type 1": np.empty((2, 8, 8, 3), np.uint8),
        "out must lie on the CUDA device 0, not on device 1 of DLPack's type 2": other.empty((2, 8, 8, 3), "uint8"),
        "out must have 4 axes, not 3": native.empty((8, 8, 3), "uint8"),
        "out has room for 3 images, not for 2": native.empty((3, 8, 8, 3), "uint8"),
        r"out must have the shape \(images, height, width, 3\)": native.empty((2, 3, 8, 8), "uint8"),
    }
    for message, out in wrong.items():
        with pytest.raises(NativeError, match=message):
            load(out)
    with pytest.raises(NativeError, match="scale and bias need a float16 or float32 output"):
        load(native.empty((2, 8, 8, 3), "uint8"), LoadOptions(scale=np.ones(3, np.float32)))
    with pytest.raises(TypeError):
        load("no array")


def test_arrays_outlive_their_loader(large: Files) -> None:
    found = loader(large.raw, [ops.Resize(8)], device="cuda", jpeg="gpu")
    array = Sized(native_of(found).empty((2, 3), "float32"), 24)
    del found
    gc.collect()
    host_view(array)[:] = 7
    assert host_view(array).tolist() == [7] * 24
    with pytest.raises(NativeError, match="unknown dtype 'int3'; known are uint8, float16 and float32"):
        native_of(loader(large.raw, [ops.Resize(8)], device="cuda", jpeg="gpu")).empty((4,), "int3")


def test_memory_is_used_again(large: Files) -> None:
    found = loader(large.indexed, [ops.Resize(40)], device="cuda", jpeg="gpu", batch_size=4)
    for _ in range(2):
        list(found)
    before = native_of(found).device_bytes
    assert before > 0
    for _ in range(5):
        list(found)
    assert native_of(found).device_bytes <= 2 * before  # a slot that had small batches may have got larger ones
    native = native_of(found)
    native.returned()
    first = Sized(native.empty((1 << 20,), "uint8"), 1 << 20)
    address = host_view(first).ctypes.data
    assert native.returned() is None
    del first
    others = [Sized(native.empty((1 << 20,), "uint8"), 1 << 20) for _ in range(2)]
    assert address not in [host_view(other).ctypes.data for other in others]  # until somebody says that nothing uses it
    returned = native.returned()
    assert returned is not None
    assert native.returned() is None
    others.append(Sized(native.empty((1 << 20,), "uint8"), 1 << 20))
    assert address not in [host_view(other).ctypes.data for other in others]
    del returned
    second = Sized(native.empty((1 << 20,), "uint8"), 1 << 20)
    assert host_view(second).ctypes.data == address


def test_memory_with_its_axes_in_another_order(large: Files) -> None:
    native = native_of(loader(large.raw, [ops.Resize(8)], device="cuda", jpeg="gpu"))
    array = native.empty((2, 3, 4, 5), "uint8")
    host_view(Sized(array, 120))[:] = np.arange(120)
    found = GpuImageLoader.transposed(array, (0, 3, 1, 2))
    del array
    assert native.returned() is None
    held = np.ndarray((2, 5, 3, 4), np.uint8, host_view(Sized(found, 120)), 0, (60, 1, 20, 5))
    np.testing.assert_array_equal(held, np.arange(120, dtype=np.uint8).reshape(2, 3, 4, 5).transpose(0, 3, 1, 2))
    del found, held
    assert native.returned() is not None
    with pytest.raises(NativeError, match="axes must name each of the 1 axes"):
        GpuImageLoader.transposed(native.empty((4,), "uint8"), (0, 1))


def test_a_process_that_uses_the_gpu_cannot_fork(large: Files) -> None:
    used = loader(large.indexed, CROPS["random"], device="cuda", jpeg="gpu")
    used[0]
    pid = os.fork()
    if not pid:
        code = 3
        try:
            assert not gpu_driver_is_open()
            fresh = loader(large.indexed, CROPS["random"], device="cuda", jpeg="gpu")
            texts = []
            for each in (used, fresh):
                try:
                    each[0]
                except (DeviceError, ValueError) as error:
                    texts.append(str(error))
            code = 0 if len(texts) == 2 and all("fork" in text for text in texts) else 1
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    used[1]
