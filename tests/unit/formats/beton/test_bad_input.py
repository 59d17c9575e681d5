"""Damaged and hostile .beton files: the right error, naming file, place, what was expected and what was found."""

from __future__ import annotations

import contextlib
import json
import struct
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.helpers import MIB, Surgeon, image_file, patch_jpeg_frame, picture, sections_of

import headrace as hr
from headrace.errors import AnnexError, CorruptSampleError, FormatError, HeadraceError
from headrace.formats import index
from headrace.progress import format_count

if TYPE_CHECKING:
    from pathlib import Path

PAGE = 2 * MIB
FIELDS: dict[str, Any] = {
    "label": hr.Int(),
    "raw": hr.Image(mode="raw"),
    "jpg": hr.Image(),
    "blob": hr.Bytes(),
    "array": hr.NDArray("<i4", (3,)),
    "doc": hr.Json(),
    "text": hr.Text(),
}
# Offsets of the members in a record: label 0, raw 8 (13 bytes), jpg 21 (13), blob 34 (16), array 56, doc 64, text 80.
RECORD = 96
LABEL, RAW, JPG, BLOB, ARRAY, DOC, TEXT = 0, 8, 21, 34, 56, 64, 80
SLOTS = 6
COUNT = 5
HUGE = 2**64 - 1


def samples() -> list[tuple[Any, ...]]:
    return [
        (
            i,
            picture(i, 6, 8),
            image_file(picture(i, 24, 32), "JPEG", quality=80),
            b"blob%d" % i,
            np.arange(3, dtype="<i4") + i,
            {"i": i},
            f"täxt {i}",
        )
        for i in range(COUNT)
    ]


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As FFCV would write it: no annex, so nothing but the structure protects it."""
    path = tmp_path_factory.mktemp("bad") / "plain.beton"
    hr.write(path, samples(), fields=FIELDS, page_size=PAGE, annex=False)
    return path


@pytest.fixture(scope="module")
def sealed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With names, classes, metadata and checksums."""
    path = tmp_path_factory.mktemp("bad") / "sealed.beton"
    options = {"names": [f"n{i}" for i in range(COUNT)], "class_names": {"label": ["a"]}, "metadata": {"k": 1}}
    hr.write(path, samples(), fields=FIELDS, page_size=PAGE, **options)
    return path


@pytest.fixture
def plain(pristine: Path, tmp_path: Path) -> Surgeon:
    return Surgeon(_copy(pristine, tmp_path))


@pytest.fixture
def safe(sealed: Path, tmp_path: Path) -> Surgeon:
    return Surgeon(_copy(sealed, tmp_path))


def _copy(path: Path, directory: Path) -> Path:
    target = directory / path.name
    target.write_bytes(path.read_bytes())
    return target


def refused(path: Path, *expected: str) -> FormatError:
    """Opening fails, and the message names the file and everything expected."""
    with pytest.raises(FormatError) as caught:
        hr.open(path)
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    for words in expected:
        assert words in message, message
    return caught.value


def corrupt(path: Path, sample: int, field: str | None, *expected: str, **options: Any) -> None:
    """Reading one sample fails and says so; the others are fine; verify names it and only it."""
    dataset = hr.open(path, **options)
    with pytest.raises(CorruptSampleError) as caught:
        dataset[sample]
    error = caught.value
    assert (error.path, error.sample, error.field) == (str(path), sample, field)
    assert error.offset is not None
    message = str(error)
    assert message.startswith(f"{path}: sample {sample}, " + (f"field {field!r}, " if field else "") + "byte ")
    for words in expected:
        assert words in message, message
    others = [i for i in range(COUNT) if i != sample]
    assert [s.label for s in dataset[others]] == others
    report = dataset.verify(decode=True)
    assert report.bad_samples == (sample,)
    assert field in {p.field for p in report.problems}


def record(surgeon: Surgeon, sample: int, member: int) -> int:
    return surgeon.metadata_start + sample * RECORD + member


# -- the frame ------------------------------------------------------------------------------------------------


def test_the_offsets_above_are_right(pristine: Path) -> None:
    dataset = hr.open(pristine)
    assert dataset.layout.record.itemsize == RECORD
    found = [dataset.layout.record.fields[c.member][1] for c in dataset.layout.columns]
    assert found == [LABEL, RAW, JPG, BLOB, ARRAY, DOC, TEXT]


def test_truncated_at_every_byte_of_header_and_first_descriptors(pristine: Path, tmp_path: Path) -> None:
    data = pristine.read_bytes()
    path = tmp_path / "cut.beton"
    end = 24 + 1041 * len(FIELDS)
    for size in [*range(24 + 1041 + 20), *range(1100, end + RECORD * COUNT + 50, 97)]:
        path.write_bytes(data[:size])
        error = refused(path, f"the file has {size}" if size < end else f"the file has {size} bytes")
        assert error.offset == (size if size < end else 16)
        assert error.fix


@pytest.mark.parametrize("size", [PAGE - 1, PAGE, PAGE + 1, 2 * PAGE - 1])
def test_truncated_at_pages(pristine: Path, tmp_path: Path, size: int) -> None:
    path = tmp_path / "cut.beton"
    path.write_bytes(pristine.read_bytes()[:size])
    refused(path, f"the allocation table should begin at byte {2 * PAGE}", f"the file has {size} bytes")


def test_truncated_at_every_byte_of_the_table(pristine: Path, tmp_path: Path) -> None:
    data = pristine.read_bytes()
    path = tmp_path / "cut.beton"
    rows = COUNT * SLOTS
    for size in range(len(data) - 50, len(data)):
        path.write_bytes(data[:size])
        kept, rest = divmod(size - 2 * PAGE, 24)
        refused(path, f"has {kept} rows and {format_count(rest, 'byte')}, {rows} rows of 24 bytes expected")


def test_bytes_after_the_end(pristine: Path, tmp_path: Path) -> None:
    path = tmp_path / "long.beton"
    path.write_bytes(pristine.read_bytes() + bytes(24))
    refused(path, f"has {COUNT * SLOTS + 1} rows and 0 bytes, {COUNT * SLOTS} rows")


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"version": 1}, "version 2 expected, found 1"),
        ({"version": 3}, "version 2 expected, found 3"),
        ({"version": 0}, "version 2 expected, found 0"),
        ({"page_size": 0}, "page size must be a power of two, found 0"),
        ({"page_size": 3}, "page size must be a power of two, found 3"),
        ({"page_size": 3 * MIB}, "page size must be a power of two, found 3145728"),
        ({"num_fields": 0}, "the file has no fields"),
        ({"num_fields": 65_535}, "field descriptors need 68221959 bytes for 65,535 fields"),
        ({"alloc_table_ptr": 0}, "the file was never finished"),
        ({"alloc_table_ptr": 10}, "the allocation table begins at 10"),
        ({"alloc_table_ptr": 7500}, "the allocation table begins at 7500"),
        ({"alloc_table_ptr": 2**63}, "should begin at byte 9223372036854775808"),
        ({"alloc_table_ptr": HUGE}, "should begin at byte 18446744073709551615"),
        ({"num_samples": HUGE}, "metadata of 18,446,744,073,709,551,615 samples, 96 bytes each, end at byte"),
        ({"num_samples": 2**64 // RECORD + 1}, "samples, 96 bytes each, end at byte"),
        ({"num_samples": 10**6}, "1,000,000 samples, 96 bytes each, end at byte"),
        ({"num_samples": COUNT + 1}, "30 rows and 0 bytes, 36 rows of 24 bytes expected"),
        ({"num_samples": 0}, "30 rows and 0 bytes, 0 rows of 24 bytes expected"),
    ],
)
def test_wrong_headers(plain: Surgeon, changes: dict[str, int], expected: str) -> None:
    refused(plain.set_header(**changes).save(), expected)


def test_a_table_past_the_end(plain: Surgeon) -> None:
    size = len(plain.data)
    refused(plain.set_header(alloc_table_ptr=size + 1).save(), f"begin at byte {size + 1}", f"has {size} bytes")
    refused(plain.set_header(alloc_table_ptr=size).save(), "0 rows and 0 bytes, 30 rows")


# -- descriptors ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("type_id", [7, 100, 254])
def test_unknown_type_ids(plain: Surgeon, type_id: int) -> None:
    error = refused(plain.put(24, bytes([type_id])).save(), f"'label' has type id {type_id}; known are 0 to 6 and 255")
    assert error.offset == 24


def test_a_user_defined_type(plain: Surgeon) -> None:
    refused(plain.put(24, b"\xff").save(), "'label' is a user-defined type (id 255)", "custom_fields={'label': ...}")


def test_names_that_are_not_ascii(plain: Surgeon) -> None:
    refused(plain.put(25, "größe".encode()).save(), "field 0", "not ASCII", r"gr\xc3\xb6\xc3\x9fe")


def test_two_fields_of_one_name(plain: Surgeon) -> None:
    error = refused(plain.put(24 + 1041 + 1, b"label\0").save(), "two fields are called 'label'")
    assert error.offset == 24 + 1041 + 1


ARGUMENTS = 24 + 1041 * 4 + 17


@pytest.mark.parametrize(
    ("shape", "text"),
    [
        ([], b'[["", "<i4"]]'),
        ([3, 0, 1], b'[["", "<i4"]]'),
        ([3], b""),
        ([3], b"{"),
        ([3], b"[]"),
        ([3], b"[3]"),
        ([3], b'[["", "|O"]]'),
        ([3], b'[["", "f4,("]]'),
        ([3], b'[["", "(2,,)f4"]]'),
        ([3], b'[["", "a5"]]'),
        ([3], b'[["", "<i4"], ["", "<i4"]]'),
        ([3], b'[["a", [["b", "<i4"]]]]'),
        ([3], b'[["", "|V0"]]'),
        ([3], b"\xff\xff"),
        ([3], b"[" * 700),
        ([HUGE, HUGE], b'[["", "<i4"]]'),
        ([2**62], b'[["", "<f8"]]'),
        ([2**31], b'[["", "<f8"]]'),
    ],
)
def test_shapes_and_dtypes_that_cannot_be(plain: Surgeon, shape: list[int], text: bytes) -> None:
    packed = struct.pack("<32QQ", *shape, *[0] * (32 - len(shape)), len(text)) + text
    error = refused(plain.put(ARGUMENTS, packed.ljust(1024, b"\0")).save(), "field 'array'")
    assert error.offset == ARGUMENTS


def test_a_dtype_text_longer_than_its_room(plain: Surgeon) -> None:
    refused(plain.put(ARGUMENTS + 256, struct.pack("<Q", HUGE)).save(), "field 'array'")


# -- pointers and sizes ---------------------------------------------------------------------------------------

BAD_POINTERS = [0, 1, 24, 8000, PAGE - 1, 2 * PAGE - 2, 2 * PAGE, 2 * PAGE + 100, 2**63, HUGE, HUGE - 3]


@pytest.mark.parametrize("pointer", BAD_POINTERS)
def test_bytes_outside_the_pages(plain: Surgeon, pointer: int) -> None:
    path = plain.put(record(plain, 2, BLOB), struct.pack("<Q", pointer)).save()
    corrupt(path, 2, "blob", f"5 bytes at byte {pointer} are not inside the data pages (bytes {PAGE} to {2 * PAGE})")
    with pytest.raises(CorruptSampleError, match="sample 2, field 'blob'"):
        hr.open(path).read_bytes([0, 2], "blob")
    with pytest.raises(CorruptSampleError, match="sample 2, field 'blob'"):
        hr.open(path).view(2, "blob")


@pytest.mark.parametrize("size", [PAGE + 1, 2**40, 2**63, HUGE])
def test_bytes_longer_than_the_pages(plain: Surgeon, size: int) -> None:
    path = plain.put(record(plain, 2, BLOB + 8), struct.pack("<Q", size)).save()
    corrupt(path, 2, "blob", f"{size} bytes at byte")


@pytest.mark.parametrize("pointer", BAD_POINTERS)
def test_arrays_outside_the_pages(plain: Surgeon, pointer: int) -> None:
    path = plain.put(record(plain, 4, ARRAY), struct.pack("<Q", pointer)).save()
    corrupt(path, 4, "array", f"12 bytes at byte {pointer} are not inside the data pages")


@pytest.mark.parametrize("pointer", BAD_POINTERS)
def test_pictures_that_the_table_does_not_know(plain: Surgeon, pointer: int) -> None:
    path = plain.put(record(plain, 1, RAW + 5), struct.pack("<Q", pointer)).save()
    corrupt(path, 1, "raw", f"the allocation table has no entry for byte {pointer}")


@pytest.mark.parametrize(("pointer", "size"), [(8000, 144), (HUGE, 144), (2 * PAGE - 10, 144), (HUGE - 143, 144)])
def test_pictures_outside_the_pages(plain: Surgeon, pointer: int, size: int) -> None:
    plain.put(record(plain, 1, RAW + 5), struct.pack("<Q", pointer)).set_row(SLOTS, ptr=pointer)
    corrupt(plain.save(), 1, "raw", f"{size} bytes at byte {pointer} are not inside the data pages")


@pytest.mark.parametrize("size", [0, 143, 145, HUGE, HUGE - 1])
def test_pictures_whose_table_row_has_another_size(plain: Surgeon, size: int) -> None:
    path = plain.set_row(SLOTS, size=size).save()
    if size in (0, HUGE):
        corrupt(path, 1, "raw", "the allocation table has no entry for byte")
    else:
        corrupt(path, 1, "raw", f"raw pixels of 8x6 take 144 bytes, {size} are stored")


@pytest.mark.parametrize(("width", "height"), [(9, 6), (8, 5), (65_535, 65_535), (1, 1)])
def test_raw_pixels_of_another_size(plain: Surgeon, width: int, height: int) -> None:
    path = plain.put(record(plain, 3, RAW + 1), struct.pack("<HH", width, height)).save()
    corrupt(path, 3, "raw", f"raw pixels of {width}x{height} take {width * height * 3} bytes, 144 are stored")


@pytest.mark.parametrize("size", [(0, 6), (8, 0), (0, 0)])
def test_pictures_without_pixels(plain: Surgeon, size: tuple[int, int]) -> None:
    path = plain.put(record(plain, 3, JPG + 1), struct.pack("<HH", *size)).save()
    corrupt(path, 3, "jpg", f"{size[0]}x{size[1]}")


@pytest.mark.parametrize("mode", [2, 7, 255])
def test_unknown_image_modes(plain: Surgeon, mode: int) -> None:
    path = plain.put(record(plain, 3, RAW), bytes([mode])).save()
    corrupt(path, 3, "raw", f"image mode must be 0 (jpg) or 1 (raw), found {mode}")


def test_raw_pixels_that_claim_to_be_a_jpeg(plain: Surgeon) -> None:
    corrupt(plain.put(record(plain, 3, RAW), b"\0").save(), 3, "raw", "cannot be decoded", "JPEG")


# -- values that do not decode --------------------------------------------------------------------------------


def payload(surgeon: Surgeon, sample: int, slot: int) -> tuple[int, int]:
    _, pointer, size = (int(v) for v in surgeon.table[sample * SLOTS + slot])
    return pointer, size


def test_a_broken_jpeg(plain: Surgeon) -> None:
    pointer, _ = payload(plain, 2, 1)
    corrupt(plain.put(pointer, bytes(20)).save(), 2, "jpg", "cannot be decoded", "JPEG")


def test_a_jpeg_cut_short(plain: Surgeon) -> None:
    _, size = payload(plain, 2, 1)
    corrupt(plain.set_row(2 * SLOTS + 1, size=size * 2 // 3).save(), 2, "jpg", "cannot be decoded", "JPEG")


def test_a_jpeg_of_another_size_than_its_record(plain: Surgeon) -> None:
    path = plain.put(record(plain, 2, JPG + 1), struct.pack("<HH", 24, 32)).save()
    corrupt(path, 2, "jpg", "JPEG is 32x24 pixels, expected 24x32")


def test_a_jpeg_whose_header_lies(plain: Surgeon) -> None:
    pointer, size = payload(plain, 2, 1)
    lie = patch_jpeg_frame(bytes(plain.data[pointer : pointer + size]), width=33)
    corrupt(plain.put(pointer, lie).save(), 2, "jpg", "JPEG is 33x24 pixels, expected 32x24")


def test_json_that_is_none(plain: Surgeon) -> None:
    pointer, _ = payload(plain, 1, 4)
    corrupt(plain.put(pointer, b"{]").save(), 1, "doc", "cannot be decoded")


def test_json_nested_without_end(tmp_path: Path) -> None:
    path = tmp_path / "deep.beton"
    fields = {"label": hr.Int(), "doc": hr.Json()}
    hr.write(path, [(i, "x" * 100_000) for i in range(COUNT)], fields=fields, annex=False, page_size=PAGE)
    surgeon = Surgeon(path)
    surgeon.put(int(surgeon.table[1][1]), b"[" * 100_002)
    corrupt(surgeon.save(), 1, "doc", "cannot be decoded")


# -- verify ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sample_id": 99}, "row 7 (sample 99, {size} bytes at byte {ptr}) names a sample that does not exist"),
        ({"ptr": 100}, "row 7 (sample 1, {size} bytes at byte 100) lies outside the data pages"),
        ({"ptr": HUGE}, "row 7 (sample 1, {size} bytes at byte 18446744073709551615) lies outside the data pages"),
        ({"size": HUGE}, "row 7 (sample 1, 18446744073709551615 bytes at byte {ptr}) lies outside the data pages"),
        ({"ptr": PAGE + 10}, "row 7 (sample 1, {size} bytes at byte 2097162) overlaps row 0"),
    ],
)
def test_verify_reports_wrong_rows(plain: Surgeon, changes: dict[str, int], message: str) -> None:
    _, ptr, size = (int(v) for v in plain.table[7])
    path = plain.set_row(7, **changes).save()
    messages = [p.message for p in hr.verify(path).problems]
    assert any(message.format(ptr=ptr, size=size) in found for found in messages), messages


def test_verify_reports_samples_on_two_pages_and_rows_that_cross(tmp_path: Path) -> None:
    path = tmp_path / "x.beton"
    hr.write(path, [(bytes(PAGE - 9), b"123456789")] * 2, fields={"a": hr.Bytes(), "b": hr.Bytes()}, page_size=PAGE)
    surgeon = Surgeon(path)
    first = int(surgeon.table[0][1])
    messages = [p.message for p in hr.open(surgeon.set_row(0, ptr=first + 20).save(), annex=False).verify().problems]
    assert any("crosses a page boundary" in m for m in messages), messages
    surgeon = Surgeon(path).set_row(1, ptr=first + PAGE + 3, size=1)
    messages = [p.message for p in hr.open(surgeon.save(), annex=False).verify().problems]
    assert any("puts a sample on two pages" in m for m in messages), messages


def test_verify_counts_what_it_checked(sealed: Path, pristine: Path) -> None:
    report = hr.verify(sealed, decode=True)
    assert report.ok
    assert (report.samples_checked, report.images_decoded) == (COUNT, 2 * COUNT)
    assert report.checksums_checked == COUNT * (1 + SLOTS)
    report = hr.verify(pristine)
    assert (report.ok, report.samples_checked, report.checksums_checked, report.images_decoded) == (True, COUNT, 0, 0)
    assert report.size_bytes == int(Surgeon(pristine).table[:, 2].sum())


def test_verify_lists_every_bad_sample(safe: Surgeon) -> None:
    for sample, slot in ((0, 2), (3, 0), (3, 5)):
        safe.flip(payload(safe, sample, slot)[0])
    report = hr.verify(safe.save(), workers=3)
    assert [(p.sample, p.field) for p in report.problems] == [(3, "raw"), (0, "blob"), (3, "text")]
    assert report.bad_samples == (0, 3)


# -- checksums ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("slot", "field"), list(enumerate(list(FIELDS)[1:])))
def test_one_flipped_bit_in_a_payload(safe: Surgeon, slot: int, field: str) -> None:
    pointer, size = payload(safe, 2, slot)
    path = safe.flip(pointer + size // 2, 0x04).save()
    corrupt(path, 2, field, f"byte {pointer}", "checksum 0x", "expected, found 0x")
    with pytest.raises(CorruptSampleError, match=f"sample 2, field '{field}'.*checksum"):
        hr.open(path).read_bytes(range(COUNT), field)
    assert len(hr.open(path, checksums=False).read_bytes(range(COUNT), field)) == COUNT


def many_numbers(path: Path, count: int = 9000) -> Surgeon:
    hr.write(path, [(i, b"%d" % i) for i in range(count)], fields={"label": hr.Int(), "b": hr.Bytes()}, page_size=PAGE)
    return Surgeon(path)


def test_one_flipped_bit_in_a_label(tmp_path: Path) -> None:
    surgeon = many_numbers(tmp_path / "x.beton")
    dataset = hr.open(surgeon.flip(surgeon.metadata_start + 24 * 8999, 0x80).save())
    with pytest.raises(CorruptSampleError, match=r"sample 8999.*does not match its checksum"):
        dataset[8999]
    assert dataset[8998].label == 8998
    assert dataset.verify().bad_samples == (8999,)


def test_one_flipped_bit_in_the_first_record_is_told_by_sample_not_by_file(safe: Surgeon) -> None:
    path = safe.flip(record(safe, 0, LABEL)).save()
    with pytest.raises(CorruptSampleError, match="sample 0"):
        hr.open(path)[0]
    assert hr.verify(path).bad_samples == (0,)
    assert hr.open(path, annex=False)[0].label == 1


# -- the annex ------------------------------------------------------------------------------------------------


def test_every_byte_of_trailer_and_directory(sealed: Path, tmp_path: Path) -> None:
    places = sections_of(sealed)
    data = bytearray(sealed.read_bytes())
    path = tmp_path / "x.beton"
    directory, size = places["directory"]
    path.write_bytes(data)
    for at in range(directory, directory + size + 64):
        with path.open("r+b") as file:
            file.seek(at)
            file.write(bytes([data[at] ^ 0x20]))
        with pytest.raises(AnnexError, match="annex") as caught:
            hr.open(path)
        assert str(path) in str(caught.value)
        assert "headrace index" in str(caught.value)
        assert len(hr.open(path, annex=False)) == COUNT
        with path.open("r+b") as file:
            file.seek(at)
            file.write(bytes([data[at]]))
    assert hr.verify(path).ok


@pytest.mark.parametrize("name", ["checksums", "schema", "names", "classes", "metadata"])
def test_a_flipped_byte_in_a_section(safe: Surgeon, name: str) -> None:
    first, size = sections_of(safe.path)[name]
    path = safe.flip(first + size // 2).save()
    message = rf"changed-sealed\.beton: annex section '{name}' does not match its checksum \(at byte {first}\)"
    if name in ("checksums", "schema"):
        with pytest.raises(AnnexError, match=message):
            hr.open(path)
        return
    dataset = hr.open(path)
    attribute = {"names": "keys", "classes": "class_names"}.get(name, name)
    with pytest.raises(AnnexError, match=message):
        getattr(dataset, attribute)
    assert dataset[0].label == 0
    problems = dataset.verify().problems
    assert [(p.sample, p.field) for p in problems] == [(None, None)]
    assert name in problems[0].message


def test_a_changed_header_is_noticed(safe: Surgeon) -> None:
    path = safe.set_header(page_size=4 * MIB).save()
    with pytest.raises(AnnexError, match="belongs to another dataset, or the dataset was changed"):
        hr.open(path)


@pytest.fixture
def beside(plain: Surgeon) -> Path:
    index(plain.path, names=[f"n{i}" for i in range(COUNT)])
    return plain.path


def test_an_annex_beside_the_file(beside: Path) -> None:
    dataset = hr.open(beside)
    assert dataset.has_checksums
    assert list(dataset.keys or ()) == [f"n{i}" for i in range(COUNT)]
    surgeon = Surgeon(beside)
    surgeon.flip(payload(surgeon, 3, 2)[0])
    beside.unlink()
    surgeon.save(beside)
    corrupt(beside, 3, "blob", "checksum")


def test_the_side_annex_of_another_file(beside: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.beton"
    hr.write(other, samples()[::-1], fields=FIELDS, page_size=PAGE, annex=False)
    annex = other.with_name("other.beton.annex")
    beside.with_name("plain.beton.annex").rename(annex)
    with pytest.raises(AnnexError, match=r"other\.beton\.annex: .*belongs to another dataset"):
        hr.open(other)
    assert len(hr.open(other, annex=False)) == COUNT


@pytest.mark.parametrize("data", [b"", b"hello", bytes(500)])
def test_a_side_file_that_is_no_annex(plain: Surgeon, data: bytes) -> None:
    plain.path.with_name("plain.beton.annex").write_bytes(data)
    with pytest.raises(AnnexError, match=r"plain\.beton\.annex: this is not an annex"):
        hr.open(plain.path)


def test_every_byte_of_a_small_side_annex(beside: Path) -> None:
    annex = beside.with_name("plain.beton.annex")
    data = annex.read_bytes()
    for at in range(0, len(data), 3):
        annex.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        with contextlib.suppress(HeadraceError):
            dataset = hr.open(beside)
            _ = dataset.keys, dataset.class_names, dataset.metadata, list(dataset)


@pytest.mark.parametrize(
    "schema",
    [
        [],
        "text",
        7,
        [["label", {"kind": "int"}]],
        [["label", 5]],
        [["label"]],
        {"label": "int"},
        [[[], {"kind": "int"}]],
        [["label", {"kind": "ndarray", "dtype": "f4,(", "shape": [1]}]],
    ],
)
def test_a_schema_that_does_not_fit(tmp_path: Path, schema: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from headrace.formats.beton import writer

    path = tmp_path / "x.beton"
    whole = writer.json_section
    text = json.dumps(schema)
    monkeypatch.setattr(writer, "json_section", lambda value: whole(json.loads(text)))
    hr.write(path, [(1, b"x")], fields={"label": hr.Int(), "b": hr.Bytes()})
    with pytest.raises(AnnexError, match="annex section 'schema'"):
        hr.open(path)


def test_class_names_that_are_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from headrace.formats.beton import writer

    monkeypatch.setattr(writer, "checked_class_names", lambda given, fields: {"label": 7})
    path = tmp_path / "x.beton"
    hr.write(path, [1], fields={"label": hr.Int()})
    with pytest.raises(AnnexError, match="annex section 'classes'"):
        _ = hr.open(path).class_names
