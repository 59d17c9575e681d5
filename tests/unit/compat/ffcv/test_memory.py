"""Memory managers, the allocator of pages, the C functions."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.helpers import image_file, picture

torch = pytest.importorskip("torch")

from tests.unit.compat.ffcv.tools import write  # noqa: E402

from headrace.codecs import jpeg  # noqa: E402
from headrace.compat.ffcv import utils  # noqa: E402
from headrace.compat.ffcv.fields import BytesField, IntField, NDArrayField, RGBImageField  # noqa: E402
from headrace.compat.ffcv.fields.rgb_image import encode_jpeg, resizer  # noqa: E402
from headrace.compat.ffcv.libffcv import imdecode, read, resize_crop  # noqa: E402
from headrace.compat.ffcv.memory_allocator import MemoryAllocator  # noqa: E402
from headrace.compat.ffcv.memory_managers import OSCacheManager, ProcessCacheManager  # noqa: E402
from headrace.compat.ffcv.pipeline import Pipeline  # noqa: E402
from headrace.compat.ffcv.pipeline.allocation_query import AllocationQuery, allocate_query  # noqa: E402
from headrace.compat.ffcv.reader import Reader  # noqa: E402
from headrace.compat.ffcv.transforms import RandomHorizontalFlip, ToTensor  # noqa: E402
from headrace.compat.ffcv.transforms.utils import fast_crop  # noqa: E402
from headrace.errors import CorruptSampleError  # noqa: E402

if TYPE_CHECKING:
    from pathlib import Path

PAGE = 1 << 12


# -- allocator -----------------------------------------------------------------------------------------------


def test_pages_are_filled_and_written(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"h" * 100)
    allocator = MemoryAllocator(str(path), 100, PAGE)
    assert (allocator.offset, allocator.page_size, allocator.my_page, allocator.space_left_in_page) == (
        PAGE,
        PAGE,
        -1,
        0,
    )
    with allocator:
        allocator.set_current_sample(0)
        first, buffer = allocator.malloc(1000)
        buffer[:] = 1
        allocator.set_current_sample(1)
        second, buffer = allocator.malloc(3000)
        buffer[:] = 2
        assert allocator.space_left_in_page == PAGE - 4000
        allocator.set_current_sample(2)
        third, buffer = allocator.malloc(97)  # does not fit any more
        buffer[:] = 3
    assert (first, second, third) == (PAGE, PAGE + 1000, 2 * PAGE)
    assert allocator.allocations == [(0, PAGE, 1000), (1, PAGE + 1000, 3000), (2, 2 * PAGE, 97)]
    data = path.read_bytes()
    expected = b"h" * 100 + bytes(PAGE - 100) + b"\1" * 1000 + b"\2" * 3000 + bytes(96) + b"\3" * 97 + bytes(PAGE - 97)
    assert data == expected


def test_a_sample_begins_anew_on_the_next_page(tmp_path: Path) -> None:
    with MemoryAllocator(tmp_path / "x", 0, PAGE) as allocator:
        allocator.set_current_sample(0)
        allocator.malloc(10)
        allocator.set_current_sample(1)
        allocator.malloc(3000)
        with pytest.raises(MemoryError):
            allocator.malloc(3000)
        assert allocator.allocations == [(0, 0, 10)]
        assert allocator.malloc(3000)[0] == PAGE
        with pytest.raises(ValueError, match="Tried allocating 4097 but page size is 4096"):
            allocator.malloc(PAGE + 1)
    assert (tmp_path / "x").stat().st_size == 2 * PAGE


def test_nothing_allocated_nothing_written(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"abc")
    with MemoryAllocator(tmp_path / "x", 3, PAGE):
        pass
    assert (tmp_path / "x").read_bytes() == b"abc"


def test_an_allocator_needs_its_file(tmp_path: Path) -> None:
    allocator = MemoryAllocator(tmp_path / "x", 0, PAGE)
    allocator.malloc(PAGE)
    with pytest.raises(RuntimeError, match="use it in a with block"):
        allocator.malloc(1)


def test_memory_for_queries() -> None:
    arrays = allocate_query(AllocationQuery((3, 2), np.dtype("<f4")), 4, 5)
    assert (arrays.shape, arrays.dtype) == ((5, 4, 3, 2), np.dtype("<f4"))
    tensors = allocate_query(AllocationQuery((3,), torch.int16), 4, 5)
    assert [tensor.shape for tensor in tensors] == [(4, 3)] * 5
    with pytest.raises(AttributeError):
        AllocationQuery((1,), torch.uint8).shape = (2,)  # type: ignore[misc]


def test_a_pipeline_by_itself() -> None:
    class Fixed(RandomHorizontalFlip):
        def declare_state_and_memory(self, previous_state: object) -> object:
            query = AllocationQuery((4, 4, 3), np.dtype("u1"))
            return type(previous_state)(True, torch.device("cpu"), (4, 4, 3), np.dtype("u1")), (query, query)

    pipeline = Pipeline([Fixed(), RandomHorizontalFlip(1.0), ToTensor()])
    assert pipeline.operation_blocks == [(True, [0, 1]), (False, [2])]
    memory = pipeline.allocate_memory(2, 3)
    assert [piece.shape for piece in memory[0]] == [(3, 2, 4, 4, 3)] * 2
    assert memory[1].shape == (3, 2, 4, 4, 3)
    assert memory[2] is None
    images = np.arange(96, dtype=np.uint8).reshape(2, 4, 4, 3)
    assert (pipeline.compiled_ops[1](images, memory[1][0]) == images[:, :, ::-1]).all()


# -- managers ------------------------------------------------------------------------------------------------


@pytest.fixture
def reader(tmp_path: Path) -> Reader:
    fields = {"n": IntField(), "a": BytesField(), "b": NDArrayField(np.dtype("<f8"), (100_000,))}
    path = write(tmp_path / "x", fields, 7, lambda i: (i, np.full(i, i, np.uint8), np.full(100_000, i / 2)))
    return Reader(path)


@pytest.mark.parametrize("kind", [OSCacheManager, ProcessCacheManager])
def test_managers_know_where_things_are(reader: Reader, kind: type) -> None:
    manager = kind(reader)
    assert sorted(manager.sample_to_pages) == list(range(7))
    assert {len(pages) for pages in manager.sample_to_pages.values()} == {1}
    assert sorted(s for samples in manager.page_to_samples.values() for s in samples) == list(range(7))
    assert manager.ptr_to_size[int(reader.metadata["f2"][3])] == 800_000
    assert len(manager.ptrs) == len(manager.sizes) == 14
    read_allocation = manager.compile_reader()
    for _ in range(2):  # every epoch has a context of its own
        with manager.schedule_epoch([np.arange(3), np.arange(3, 6), np.array([6])]) as context:
            for batch in range(3):
                context.start_batch(batch)
                for i in range(3 * batch, min(3 * batch + 3, 7)):
                    stored = read_allocation(reader.metadata["f2"][i], context.state)
                    assert (stored.view("<f8") == i / 2).all()


def test_sizes_of_values_that_share_a_place(tmp_path: Path) -> None:
    values = [b"", b"", b"abc", b"", b"de", b""]
    reader = Reader(write(tmp_path / "x", {"v": BytesField()}, len(values), lambda i: (values[i],)))
    manager = OSCacheManager(reader)
    read_allocation = manager.compile_reader()
    for record, value in zip(reader.metadata["f0"], values, strict=True):
        if value:
            assert read_allocation(record["ptr"], manager.state).tobytes() == value


# -- functions of the C library ------------------------------------------------------------------------------


def test_a_jpeg_is_decoded_as_ffcv_does() -> None:
    pixels = picture(1, 30, 41)
    data = np.frombuffer(image_file(pixels, "JPEG", quality=90), np.uint8)
    expected = jpeg.decode(data.tobytes(), dct="fast")
    out = np.zeros((30, 41, 3), np.uint8)
    assert imdecode(data, out, 30, 41, 30, 41) == 0
    assert (out == expected).all()
    roomy = np.full(10_000, 7, np.uint8)  # a buffer for the largest picture
    imdecode(data, roomy, np.uint32(30), np.uint32(41), 30, 41, 0, 0, 1, 1, False, False)
    assert (roomy[: expected.size].reshape(expected.shape) == expected).all()
    assert (roomy[expected.size :] == 7).all()
    mirrored, part = np.zeros_like(out), np.zeros((8, 16, 3), np.uint8)
    imdecode(data, mirrored, 30, 41, 30, 41, do_flip=True)
    assert (mirrored == expected[:, ::-1]).all()
    imdecode(data, part, 30, 41, 8, 16, offset_x=3, offset_y=5, enable_crop=True)
    assert (part == expected[5:13, 3:19]).all()
    with pytest.raises(ValueError, match="does not scale"):
        imdecode(data, out, 30, 41, 30, 41, scale_factor_denom=2)
    with pytest.raises(CorruptSampleError):
        imdecode(data[:50], out, 30, 41, 30, 41)
    with pytest.raises(CorruptSampleError):
        imdecode(data, roomy, 31, 41, 31, 41)
    with pytest.raises(ValueError, match="cannot reshape"):
        imdecode(data, out[:20], 30, 41, 30, 41)
    with pytest.raises(ValueError, match="contiguous"):
        imdecode(data, roomy[::2], 30, 41, 30, 41)


def test_parts_of_pictures_are_resized() -> None:
    pixels = np.repeat(np.arange(40, dtype=np.uint8)[:, None], 20, 1)[:, :, None].repeat(3, 2)
    out = np.zeros((5, 4, 3), np.uint8)
    resize_crop(pixels, 10, 20, 0, 20, out)
    assert out[:, 0, 0].tolist() == [10, 12, 14, 16, 18] or out[:, 0, 0].tolist() == [11, 13, 15, 17, 19]
    with pytest.raises(ValueError, match="not inside"):
        resize_crop(pixels, 10, 50, 0, 20, out)
    with pytest.raises(ValueError, match="empty"):
        resize_crop(pixels, 10, 10, 0, 20, out)
    top, left, height, width = fast_crop.get_random_crop(40, 20, np.array([0.1, 0.5]), np.array([0.75, 1.5]))
    assert 0 <= top <= 40 - height
    assert 0 <= left <= 20 - width
    assert fast_crop.get_center_crop(40, 20, 0.5) == (15, 5, 10, 10)


def test_bytes_are_read(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(bytes(range(100)))
    out = np.zeros(10, np.uint8)
    with open(tmp_path / "x", "rb") as file:
        assert read(file.fileno(), out, 40) == 10
        assert out.tolist() == list(range(40, 50))
        assert read(file.fileno(), out, 95) == 5


def test_helpers_of_picture_fields() -> None:
    pixels = picture(3, 40, 60)
    data = encode_jpeg(pixels, 90)
    assert data.dtype == np.uint8
    assert np.abs(jpeg.decode(data.tobytes()).astype(int) - pixels).mean() < 4
    assert (resizer(pixels, None) == pixels).all()
    assert (resizer(pixels, 100) == pixels).all()
    assert resizer(pixels, 30).shape == (20, 30, 3)
    field = RGBImageField("jpg")
    record, stored = np.zeros(1, field.metadata_type), []

    def malloc(size: int) -> tuple[int, np.ndarray]:
        stored.append(np.zeros(size, np.uint8))
        return 77, stored[-1]

    field.encode(record, pixels, malloc)
    assert record.tolist() == [(0, 60, 40, 77)]
    assert (stored[0] == encode_jpeg(pixels, 90)).all()


def test_small_things(capsys: pytest.CaptureFixture[str]) -> None:
    assert list(utils.chunks([1, 2, 3], 2)) == [[1, 2], [3]]
    assert [n for n in range(-1, 9) if utils.is_power_of_2(n)] == [1, 2, 4, 8]
    assert [utils.align_to_page(n, 8) for n in (0, 1, 8, 9)] == [0, 8, 8, 16]
    assert utils.decode_null_terminated_string(np.frombuffer(b"abc\0def", np.uint8)) == "abc"
    assert utils.decode_null_terminated_string(np.frombuffer(b"a" * 16, np.uint8)) == "a" * 16
    utils.s_print("a", "b", sep="-")
    assert capsys.readouterr().out == "a-b\n"
    memory = np.array([5, 6], np.uint8)
    assert utils.cast_int_to_byte_ptr(memory.ctypes.data)[1] == 6
    assert isinstance(utils.cast_int_to_byte_ptr(0), ctypes.POINTER(ctypes.c_uint8))
