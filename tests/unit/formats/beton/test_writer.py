from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.helpers import MIB, Surgeon, write_all_fields

import headrace as hr
from headrace.errors import ClosedError, SampleTooLargeError, WriteError
from headrace.formats.beton.layout import columns_for
from headrace.storage import AtomicFile

if TYPE_CHECKING:
    from pathlib import Path

TWO: dict[str, Any] = {"blob": hr.Bytes(), "label": hr.Int()}
PAGE = 2 * MIB


def blobs(path: Path) -> list[bytes]:
    dataset = hr.open(path)
    return dataset.read_bytes(range(len(dataset)), next(iter(dataset.schema)))


# -- FFCV's rules about the file -----------------------------------------------------------------------------


def check_ffcv_rules(path: Path) -> None:
    """What FFCV's reader relies on, checked with nothing but struct and numpy."""
    file = Surgeon(path)
    header = file.header
    dataset = hr.open(path)
    payloads = len(dataset.layout.payload_columns)
    page = header["page_size"]
    assert header["version"] == 2
    assert header["num_fields"] == len(dataset.schema)
    assert header["num_samples"] == len(dataset)
    assert page & (page - 1) == 0
    assert 2 * MIB <= page < 4096 * MIB
    sample, ptr, size = file.table.T
    assert len(file.table) == payloads * len(dataset)
    if not payloads:
        return
    metadata_end = file.metadata_start + len(dataset) * dataset.layout.record.itemsize
    first_page = -(-metadata_end // page) * page
    assert ptr.min() >= first_page
    assert (ptr + size).max() <= header["alloc_table_ptr"]
    assert (np.bincount(sample.astype(int)) == payloads).all(), "every sample has a row for each payload"
    assert len(np.unique(ptr)) == len(ptr), "FFCV finds sizes by pointer"
    last = ptr + np.maximum(size, 1) - 1
    assert (ptr // page == last // page).all(), "nothing crosses a page"
    for i in range(len(dataset)):
        assert len(np.unique(ptr[sample == i] // page)) == 1, "all data of a sample is on one page"
    order = np.argsort(ptr)
    assert (ptr[order][1:] >= (ptr + size)[order][:-1]).all(), "nothing overlaps"
    assert header["alloc_table_ptr"] >= (int(last.max()) // page + 1) * page, "data pages are whole"


@pytest.mark.parametrize("annex", [True, False])
@pytest.mark.parametrize("page_size", [PAGE, 8 * MIB, None])
def test_the_file_obeys_ffcvs_rules(tmp_path: Path, annex: bool, page_size: int | None) -> None:
    path = tmp_path / "x.beton"
    write_all_fields(path, 23, annex=annex, page_size=page_size)
    check_ffcv_rules(path)
    assert (hr.open(path).annex is not None) == annex
    assert hr.verify(path, decode=True).ok
    assert Surgeon(path).header["page_size"] == (page_size or 8 * MIB)


def test_without_annex_the_table_follows_the_pages(tmp_path: Path) -> None:
    path = tmp_path / "x.beton"
    hr.write(path, [(b"abc", 1)], fields=TWO, annex=False, page_size=PAGE)
    assert Surgeon(path).header["alloc_table_ptr"] == 2 * PAGE
    assert path.stat().st_size == 2 * PAGE + 24


def test_pages_break_as_in_ffcvs_own_file(tmp_path: Path, golden_dir: Path) -> None:
    theirs = hr.open(golden_dir / "multi_page.beton")
    path = tmp_path / "x.beton"
    hr.write(path, [tuple(s) for s in theirs], fields=theirs.schema, page_size=theirs.layout.page_size)
    check_ffcv_rules(path)
    for field in ("a", "b"):
        assert blobs(path) is not None
        assert hr.open(path).read_bytes(range(len(theirs)), field) == theirs.read_bytes(range(len(theirs)), field)


def test_a_sample_of_exactly_one_page(tmp_path: Path) -> None:
    path = tmp_path / "x.beton"
    values = [b"a" * PAGE, b"b", b"c" * (PAGE - 1), b"d", b"e" * PAGE]
    hr.write(path, values, fields={"blob": hr.Bytes()}, page_size=PAGE)
    assert blobs(path) == values
    check_ffcv_rules(path)


def test_a_sample_larger_than_a_fixed_page(tmp_path: Path) -> None:
    path = tmp_path / "x.beton"
    values = [(b"x", 0), (b"y" * (PAGE + 1), 1)]
    with pytest.raises(SampleTooLargeError, match=f"page_size={2 * PAGE}") as caught:
        hr.write(path, values, fields=TWO, page_size=PAGE)
    error = caught.value
    facts = (error.sample, error.size_bytes, error.page_size, error.needed_page_size)
    assert facts == (1, PAGE + 1, PAGE, 2 * PAGE)
    assert not list(tmp_path.iterdir())
    hr.write(path, values, fields=TWO, page_size=2 * PAGE)
    assert hr.verify(path).ok


def test_pages_grow_by_themselves(tmp_path: Path) -> None:
    path = tmp_path / "x.beton"
    sizes = [100, 9 * MIB, 0, 5, 17 * MIB, 7]
    values = [(bytes([n % 251]) * n, n) for n in sizes]
    hr.write(path, iter(values), fields=TWO)
    assert Surgeon(path).header["page_size"] == 32 * MIB
    assert blobs(path) == [blob for blob, _ in values]
    check_ffcv_rules(path)


def test_a_known_size_picks_the_page_up_front(tmp_path: Path) -> None:
    path = tmp_path / "x.beton"
    hr.write(path, [np.zeros(9 * MIB, np.uint8)], fields={"a": hr.NDArray("u1", (9 * MIB,))})
    assert Surgeon(path).header["page_size"] == 16 * MIB
    assert not hr.open(path)[0].a.any()


@pytest.mark.slow
@pytest.mark.parametrize("can_insert", [True, False])
@pytest.mark.parametrize("count", [70_000, 140_000])
def test_more_metadata_than_was_reserved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, can_insert: bool, count: int
) -> None:
    """Length unknown: room for the metadata is made at the end, by the file system or by moving bytes."""
    if not can_insert:
        monkeypatch.setattr(AtomicFile, "_insert_range", lambda *args: False)
    grown, known = tmp_path / "grown.beton", tmp_path / "known.beton"
    values = [(b"%d" % i, i) for i in range(count)]
    hr.write(grown, iter(values), fields=TWO, page_size=PAGE)
    hr.write(known, values, fields=TWO, page_size=PAGE)
    assert grown.read_bytes() == known.read_bytes()
    assert hr.open(grown).column("label").tolist() == list(range(count))
    assert blobs(grown)[:: count - 1] == [b"0", b"%d" % (count - 1)]
    assert hr.verify(grown).ok


def test_scalars_only(tmp_path: Path) -> None:
    path = tmp_path / "x.beton"
    fields = {"a": hr.Int(), "b": hr.Float()}
    hr.write(path, ((i, i / 2) for i in range(3000)), fields=fields, annex=False)
    header = Surgeon(path).header
    assert header["alloc_table_ptr"] == path.stat().st_size == 24 + 2 * 1041 + 3000 * 16
    assert tuple(hr.open(path)[2999]) == (2999, 1499.5)
    hr.write(path, ((i, i / 2) for i in range(3000)), fields=fields, force=True)
    assert tuple(hr.open(path)[2999]) == (2999, 1499.5)
    assert hr.verify(path).checksums_checked == 3000


def test_zero_length_values(tmp_path: Path) -> None:
    path = tmp_path / "x.beton"
    fields = {"a": hr.Bytes(), "b": hr.Bytes(), "t": hr.Text()}
    values = [(b"", b"", ""), (b"x", b"", "y"), (b"", b"z", ""), (b"", b"", "")]
    hr.write(path, values, fields=fields)
    assert [tuple(s) for s in hr.open(path)] == values
    check_ffcv_rules(path)


# -- append ---------------------------------------------------------------------------------------------------


def test_samples_as_tuple_list_dict_and_sample(tmp_path: Path) -> None:
    path = tmp_path / "x.beton"
    with hr.BetonWriter(path, TWO) as writer:
        writer.append((b"a", 1))
        writer.append([b"b", 2])
        writer.append({"label": 3, "blob": b"c"})
        writer.append(hr.Sample(("label", "blob"), (4, b"d")))
        assert len(writer) == 4
        assert not path.exists()
    assert [tuple(s) for s in hr.open(path)] == [(b"a", 1), (b"b", 2), (b"c", 3), (b"d", 4)]


@pytest.mark.parametrize("value", [b"x", (b"x",), [b"x"], {"blob": b"x"}])
def test_a_single_field_takes_the_bare_value(tmp_path: Path, value: Any) -> None:
    path = tmp_path / "x.beton"
    if isinstance(value, list):
        with pytest.raises(WriteError), hr.BetonWriter(path, {"blob": hr.Bytes()}) as writer:
            writer.append(value)  # a list may be the value itself, so it is not unpacked
        return
    with hr.BetonWriter(path, {"blob": hr.Bytes()}) as writer:
        writer.append(value)
    assert hr.open(path)[0].blob == b"x"


@pytest.mark.parametrize(
    ("sample", "message"),
    [
        ((b"a",), "sample 1 has 1 value, expected 2"),
        ((b"a", 1, 2), "sample 1 has 3 values, expected 2"),
        ({"blob": b"a"}, r"sample 1 has the fields \['blob'\], expected \['blob', 'label'\]"),
        ({"blob": b"a", "label": 1, "x": 2}, "sample 1 has the fields"),
        ({"blob": b"a", "label": 1, 5: 2}, "sample 1 has the fields"),
        (b"a", "sample 1 is a bytes; expected a tuple or dict of blob, label"),
        ((b"a", 1.5), "sample 1, field 'label': TypeError: an Int field takes integers, got 1.5"),
        ((3, 1), "sample 1, field 'blob': TypeError"),
    ],
)
def test_wrong_samples(tmp_path: Path, sample: Any, message: str) -> None:
    writer = hr.BetonWriter(tmp_path / "x.beton", TWO)
    writer.append((b"good", 0))
    with pytest.raises(WriteError, match=message) as caught, writer:
        writer.append(sample)
    assert caught.value.sample == 1
    assert not list(tmp_path.iterdir())


def test_a_wrong_sample_does_not_spoil_the_writer(tmp_path: Path) -> None:
    path = tmp_path / "x.beton"
    with hr.BetonWriter(path, TWO) as writer:
        writer.append((b"a", 1))
        with pytest.raises(WriteError):
            writer.append((b"bad", "label"))
        writer.append((b"b", 2))
    assert hr.open(path).column("label").tolist() == [1, 2]


def test_values_are_taken_when_appended(tmp_path: Path) -> None:
    path = tmp_path / "x.beton"
    blob, array, pixels, doc = bytearray(b"abc"), np.arange(3), np.zeros((2, 2, 3), np.uint8), {"k": [1]}
    fields = {"blob": hr.Bytes(), "array": hr.NDArray("int64", (3,)), "raw": hr.Image(mode="raw"), "doc": hr.Json()}
    with hr.BetonWriter(path, fields) as writer:
        writer.append((blob, array, pixels, doc))
        blob[0], array[0], pixels[:], doc["k"][0] = 0, 99, 255, 7
    sample = hr.open(path)[0]
    assert (sample.blob, sample.array.tolist(), sample.raw.max(), sample.doc) == (b"abc", [0, 1, 2], 0, {"k": [1]})


def test_names(tmp_path: Path) -> None:
    path = tmp_path / "x.beton"
    names = ["a", "", "ü/中.jpg", b"caf\xe9".decode("utf-8", "surrogateescape")]
    with hr.BetonWriter(path, TWO) as writer:
        for i, name in enumerate(names):
            writer.append((b"x", i), name=name)
    assert list(hr.open(path).keys or ()) == names


@pytest.mark.parametrize("names", [("a", None), (None, "a")])
def test_all_names_or_none(tmp_path: Path, names: tuple[str | None, ...]) -> None:
    path = tmp_path / "x.beton"
    with hr.BetonWriter(path, TWO) as writer:
        writer.append((b"x", 0), name=names[0])
        with pytest.raises(ValueError, match="either all samples have a name or none has"):
            writer.append((b"x", 1), name=names[1])
    assert len(hr.open(path)) == 1


def test_a_refused_sample_leaves_no_trace(tmp_path: Path) -> None:
    path = tmp_path / "x.beton"
    with hr.BetonWriter(path, TWO, page_size=PAGE) as writer:
        writer.append((b"a", 0))
        with pytest.raises(SampleTooLargeError, match="sample 1 takes"):
            writer.append((bytes(PAGE + 1), 1))
        writer.append((b"b", 2))
    assert [tuple(s) for s in hr.open(path)] == [(b"a", 0), (b"b", 2)]


def test_names_need_the_annex(tmp_path: Path) -> None:
    writer = hr.BetonWriter(tmp_path / "x.beton", TWO, annex=False)
    with pytest.raises(ValueError, match="names are kept in the annex"):
        writer.append((b"x", 0), name="a")
    writer.abort()
    for extra in ({"class_names": {"label": ["a"]}}, {"metadata": {"k": 1}}):
        with pytest.raises(ValueError, match="kept in the annex"):
            hr.BetonWriter(tmp_path / "x.beton", TWO, annex=False, **extra)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("class_names", [{"blob": ["a"]}, {"nothing": ["a"]}])
def test_class_names_belong_to_int_fields(tmp_path: Path, class_names: dict[str, list[str]]) -> None:
    with pytest.raises(ValueError, match="there is no Int field of that name"):
        hr.BetonWriter(tmp_path / "x.beton", TWO, class_names=class_names)


def test_metadata_that_json_cannot_say_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="set"):
        hr.BetonWriter(tmp_path / "x.beton", TWO, metadata={"a": {1, 2}})
    with pytest.raises(TypeError, match="bytes"):
        hr.BetonWriter(tmp_path / "x.beton", TWO, class_names={"label": [b"a"]})


def test_closed_is_said(tmp_path: Path) -> None:
    path = tmp_path / "x.beton"
    writer = hr.BetonWriter(path, TWO)
    writer.append((b"x", 0))
    writer.close()
    writer.close()
    with pytest.raises(ClosedError, match=r"x\.beton: the writer is closed"):
        writer.append((b"y", 1))
    assert len(hr.open(path)) == 1


def test_abort_leaves_nothing(tmp_path: Path) -> None:
    writer = hr.BetonWriter(tmp_path / "x.beton", TWO)
    writer.append((b"x" * 9 * MIB, 0))
    writer.abort()
    assert not list(tmp_path.iterdir())
    with pytest.raises(ClosedError):
        writer.append((b"y", 1))


def test_zero_samples_is_an_error_and_no_file(tmp_path: Path) -> None:
    writer = hr.BetonWriter(tmp_path / "x.beton", TWO)
    with pytest.raises(ValueError, match=r"x\.beton: no samples were written.*no file was made"):
        writer.close()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("page_size", [0, 1, 3 * MIB, MIB, 4096 * MIB, -2 * MIB])
def test_page_sizes_that_ffcv_refuses(tmp_path: Path, page_size: int) -> None:
    with pytest.raises(ValueError, match=f"page_size must be a power of two from .* got {page_size}"):
        hr.BetonWriter(tmp_path / "x.beton", TWO, page_size=page_size)
    assert not list(tmp_path.iterdir())


# -- field names ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("seventeen_letters", "has 17 characters, the format ends at 16"),
        ("größe", "must be non-empty ASCII"),
        ("", "no field can be called that: '' is no name"),
        ("a\0b", "has a control character in it"),
        ("a//b", "has a slash with no name beside it"),
        (3, "3 is not text"),
    ],
)
def test_field_names_the_format_cannot_hold(tmp_path: Path, name: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        hr.write(tmp_path / "x.beton", [1], fields={name: hr.Int()})
    assert not list(tmp_path.iterdir())


def test_a_name_of_16_characters(tmp_path: Path) -> None:
    path = tmp_path / "x.beton"
    hr.write(path, [1], fields={"exactly_16_chars": hr.Int()})
    assert list(hr.open(path).schema) == ["exactly_16_chars"]


def test_no_fields_at_all(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="fields is empty"):
        hr.BetonWriter(tmp_path / "x.beton", {})


def test_a_field_class_instead_of_a_field(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="label"):
        columns_for({"label": hr.Int})  # type: ignore[dict-item]
