"""Files that are damaged or made to harm: an exception that says what is wrong, never the end of the process."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.helpers import DESCRIPTOR_SIZE, HEADER, Surgeon, picture

torch = pytest.importorskip("torch")

from tests.unit.compat.ffcv.tools import write  # noqa: E402

from headrace.compat.ffcv import Loader  # noqa: E402
from headrace.compat.ffcv.fields import (  # noqa: E402
    BytesField,
    FloatField,
    IntField,
    JSONField,
    NDArrayField,
    RGBImageField,
)
from headrace.compat.ffcv.fields.decoders import CenterCropRGBImageDecoder  # noqa: E402
from headrace.compat.ffcv.loader import OrderOption  # noqa: E402
from headrace.compat.ffcv.memory_managers import OSCacheManager  # noqa: E402
from headrace.compat.ffcv.reader import Reader  # noqa: E402
from headrace.compat.ffcv.transforms import ToTensor  # noqa: E402
from headrace.errors import CorruptSampleError, FormatError  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

FIELDS = {
    "image": RGBImageField("jpg"),
    "raw": RGBImageField("raw"),
    "blob": BytesField(),
    "doc": JSONField(),
    "array": NDArrayField(np.dtype("<f4"), (7,)),
    "n": IntField(),
    "x": FloatField(),
}
COUNT = 12


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    def sample(i: int) -> tuple[Any, ...]:
        return picture(i, 16, 24), picture(i, 8, 8), bytes(range(i)), {"i": i}, np.full(7, i, "<f4"), i, i / 2

    return write(tmp_path_factory.mktemp("hostile") / "good.beton", FIELDS, COUNT, sample)


def read_all(path: Path, **options: Any) -> list[tuple[Any, ...]]:
    crop = [CenterCropRGBImageDecoder((8, 8), 1.0), ToTensor()]
    return list(Loader(path, 4, 2, pipelines={"image": crop, "raw": crop}, **options))


def changed(good: Path, tmp_path: Path, change: Callable[[Surgeon], object]) -> Path:
    surgeon = Surgeon(good)
    change(surgeon)
    return surgeon.save(tmp_path / "bad.beton")


def record(surgeon: Surgeon, sample: int, member: str, inner: str | None = None) -> int:
    """First byte of a member of a sample's metadata."""
    dtype = Reader(surgeon.path).metadata_type
    kind, offset = dtype.fields[member][:2]
    return surgeon.metadata_start + sample * dtype.itemsize + offset + (kind.fields[inner][1] if inner else 0)


def test_the_good_file_is_good(good: Path) -> None:
    assert len(read_all(good)) == 3


# -- cut short -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "size", [0, 1, 23, 24, 500, 24 + DESCRIPTOR_SIZE, 24 + 7 * DESCRIPTOR_SIZE, 8000, 1 << 21, 3 << 20]
)
def test_cut_short(good: Path, tmp_path: Path, size: int) -> None:
    path = tmp_path / "short"
    path.write_bytes(good.read_bytes()[:size])
    with pytest.raises(FormatError, match=r"short: .* and the file has"):
        read_all(path)


def test_a_file_without_its_table(good: Path, tmp_path: Path) -> None:
    path = tmp_path / "short"
    path.write_bytes(good.read_bytes()[: Surgeon(good).header["alloc_table_ptr"]])
    with pytest.raises(CorruptSampleError, match="sample 0, field 'image': the allocation table has no entry"):
        read_all(path)
    with pytest.raises(ValueError, match="won't benefit"):
        read_all(path, order=OrderOption.QUASI_RANDOM)


def test_a_file_that_was_not_finished(good: Path, tmp_path: Path) -> None:
    path = changed(good, tmp_path, lambda s: s.set_header(alloc_table_ptr=0))
    with pytest.raises(FormatError, match="was not finished"):
        Reader(path)


def test_not_a_file(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("This is a text and no dataset. " * 100)
    with pytest.raises(AssertionError, match="file format mismatch: code=2,file="):
        Loader(tmp_path / "text", 4)
    with pytest.raises(IsADirectoryError):
        Loader(tmp_path, 4)


# -- the header ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [0, 1, 3, 65535])
def test_another_version(good: Path, tmp_path: Path, version: int) -> None:
    with pytest.raises(AssertionError, match=f"file format mismatch: code=2,file={version}"):
        Reader(changed(good, tmp_path, lambda s: s.set_header(version=version)))


@pytest.mark.parametrize(
    "header",
    [
        {"num_fields": 0},
        {"num_fields": 65535},
        {"page_size": 0},
        {"page_size": 3},
        {"page_size": 2**32 - 1},
        {"num_samples": 2**40},
        {"num_samples": 2**64 - 1},
        {"alloc_table_ptr": 2**40},
        {"alloc_table_ptr": 2**64 - 1},
    ],
    ids=str,
)
def test_numbers_in_the_header(good: Path, tmp_path: Path, header: dict[str, int]) -> None:
    with pytest.raises(FormatError, match=r"bad\.beton"):
        Reader(changed(good, tmp_path, lambda s: s.set_header(**header)))


@pytest.mark.parametrize("page_size", [1, 2, 1 << 31])
def test_pages_of_another_size(good: Path, tmp_path: Path, page_size: int) -> None:
    path = changed(good, tmp_path, lambda s: s.set_header(page_size=page_size))
    try:
        assert len(read_all(path, order=OrderOption.QUASI_RANDOM)) == 3
    except ValueError:
        assert page_size < 1 << 21


# -- fields --------------------------------------------------------------------------------------------------


def at_field(number: int) -> int:
    return HEADER.size + DESCRIPTOR_SIZE * number


def argument(number: int) -> int:
    return at_field(number) + 17


@pytest.mark.parametrize(
    ("place", "data"),
    [
        (at_field(2), b"\x07"),
        (at_field(2), b"\xfe"),
        (at_field(2) + 1, b"image\0"),
        (argument(4) + 256, struct.pack("<Q", 2000)),
        (argument(4) + 256, struct.pack("<Q", 2**63)),
        (argument(4) + 264, b"not json, surely"),
        (argument(4) + 264, b'{"a": 1}        '),
        (argument(4) + 264, b'[["", "<q9"]]   '),
        (argument(4) + 264, b'[["", "|O8"]]   '),
        (argument(4) + 264, b"[[]]            "),
        (argument(4) + 264, b"[3]             "),
        (argument(4), struct.pack("<Q", 2**62)),
        (argument(4), struct.pack("<QQQ", 2**32, 2**32, 2**32)),
        (argument(4), struct.pack("<Q", 1 << 20)),
    ],
)
def test_fields_that_cannot_be(good: Path, tmp_path: Path, place: int, data: bytes) -> None:
    path = changed(good, tmp_path, lambda s: s.put(place, data))
    with pytest.raises(FormatError, match=r"bad\.beton"):
        read_all(path)


def test_a_field_of_structured_arrays(good: Path, tmp_path: Path) -> None:
    text = b'[["a", "<f4"], ["b", "<f4"]]'
    path = changed(good, tmp_path, lambda s: s.put(argument(4) + 256, struct.pack("<Q", len(text)) + text))
    with pytest.raises(AssertionError):
        Reader(path)


def test_a_name_that_is_no_text(good: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="ascii"):
        Reader(changed(good, tmp_path, lambda s: s.put(at_field(0) + 1, b"\xff\xfe")))


def test_a_field_of_a_users_own(good: Path, tmp_path: Path) -> None:
    path = changed(good, tmp_path, lambda s: s.put(at_field(2), b"\xff"))
    with pytest.raises(ValueError, match="Must specify a custom_field entry for custom field blob"):
        Reader(path)
    assert len(read_all(path, custom_fields={"blob": BytesField})) == 3


# -- pointers and sizes --------------------------------------------------------------------------------------

FAR = [2**62, 2**64 - 1, 2**64 - 100]


@pytest.mark.parametrize("pointer", [*FAR, 1 << 23])
@pytest.mark.parametrize(("field", "member", "inner"), [(0, "f0", "data_ptr"), (2, "f2", "ptr"), (4, "f4", None)])
def test_pointers_outside(good: Path, tmp_path: Path, field: int, member: str, inner: str | None, pointer: int) -> None:
    path = changed(good, tmp_path, lambda s: s.put(record(s, 5, member, inner), struct.pack("<Q", pointer)))
    name = list(FIELDS)[field]
    with pytest.raises(CorruptSampleError, match=rf"bad\.beton: sample 5, field '{name}'") as caught:
        read_all(path)
    assert (caught.value.sample, caught.value.field) == (5, name)
    assert len(read_all(path, indices=[i for i in range(COUNT) if i not in (5, 6, 7, 8)])) == 2


@pytest.mark.parametrize("size", [*FAR, 1 << 22, 1 << 33])
@pytest.mark.parametrize("member", ["f2", "f3"])
def test_sizes_that_cannot_be(good: Path, tmp_path: Path, member: str, size: int) -> None:
    path = changed(good, tmp_path, lambda s: s.put(record(s, 5, member, "size"), struct.pack("<Q", size)))
    with pytest.raises(CorruptSampleError, match="sample 5"):
        read_all(path)
    assert len(read_all(path, indices=[0, 1, 2, 3])) == 1


@pytest.mark.parametrize("change", [{"size": 2**63}, {"size": 3}, {"ptr": 2**63}, {"ptr": 17}, {"size": 0}])
def test_rows_of_the_table(good: Path, tmp_path: Path, change: dict[str, int]) -> None:
    surgeon = Surgeon(good)
    row = next(
        i for i, r in enumerate(surgeon.table.tolist()) if r[1] == int(Reader(good).metadata["f1"]["data_ptr"][5])
    )
    path = surgeon.set_row(row, **change).save(tmp_path / "bad.beton")
    with pytest.raises(CorruptSampleError, match="sample 5, field 'raw'"):
        read_all(path)


@pytest.mark.parametrize("pointer", FAR)
def test_orders_by_pages_check_the_table(good: Path, tmp_path: Path, pointer: int) -> None:
    path = changed(good, tmp_path, lambda s: s.set_row(3, ptr=pointer))
    with pytest.raises(FormatError, match="the allocation table points to byte"):
        read_all(path, order=OrderOption.QUASI_RANDOM)


@pytest.mark.parametrize("sample", [COUNT, 2**63, 2**64 - 1])
@pytest.mark.parametrize("order", list(OrderOption))
@pytest.mark.parametrize("os_cache", [True, False])
def test_samples_that_are_not_there(
    good: Path, tmp_path: Path, sample: int, order: OrderOption, os_cache: bool
) -> None:
    path = changed(good, tmp_path, lambda s: s.set_row(3, sample_id=sample))
    batches = read_all(path, order=order, os_cache=os_cache)
    assert sorted(int(n) for batch in batches for n in batch[5]) == list(range(COUNT))


@pytest.mark.parametrize(("width", "height"), [(0, 8), (8, 0), (65535, 65535), (9, 8), (8, 7)])
@pytest.mark.parametrize("member", ["f0", "f1"])
def test_sides_of_pictures(good: Path, tmp_path: Path, member: str, width: int, height: int) -> None:
    place = lambda s: record(s, 5, member, "width")  # noqa: E731
    path = changed(good, tmp_path, lambda s: s.put(place(s), struct.pack("<HH", width, height)))
    with pytest.raises(CorruptSampleError, match="sample 5"):
        read_all(path)


def test_modes_of_pictures(good: Path, tmp_path: Path) -> None:
    path = changed(good, tmp_path, lambda s: s.put(record(s, 5, "f1", "mode"), b"\x09"))
    with pytest.raises(CorruptSampleError, match="image mode must be 0"):
        read_all(path)


def test_readers_of_one_allocation(good: Path) -> None:
    manager = OSCacheManager(Reader(good))
    read = manager.compile_reader()
    assert len(read(np.uint64(2**63), manager.state)) == 0


@pytest.mark.slow
@pytest.mark.timeout(170)
def test_random_damage_never_ends_the_process(good: Path, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    data = good.read_bytes()
    structure = [*range(24 + 7 * DESCRIPTOR_SIZE + COUNT * Reader(good).metadata_type.itemsize)]
    structure += range(Surgeon(good).header["alloc_table_ptr"], len(data))
    weights = np.ones(len(structure))
    weights[:24] = 40  # the header is small and matters most
    failures = 0
    for k in range(250):
        damaged = bytearray(data)
        for place in rng.choice(structure, 1 + k % 4, p=weights / weights.sum()):
            damaged[place] = rng.integers(256)
        path = tmp_path / "damaged"
        path.write_bytes(damaged)
        try:
            read_all(path, order=list(OrderOption)[k % 3], os_cache=k % 2 == 0, drop_last=False)
        except (ValueError, AssertionError, UnicodeDecodeError):
            failures += 1
    assert 20 < failures < 250
