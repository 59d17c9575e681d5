"""HDF5 files that headrace writes: everything comes back, h5py reads them, nothing is left behind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.helpers import ALL_FIELDS, all_fields_sample, same_value

import headrace as hr
from headrace.errors import WriteError
from headrace.formats.hdf5 import Hdf5Writer, writer

if TYPE_CHECKING:
    from pathlib import Path

h5py = pytest.importorskip("h5py")


@pytest.mark.parametrize("compression", [None, "gzip"])
@pytest.mark.parametrize("count", [0, 1, 11])
def test_every_field_comes_back(tmp_path: Path, compression: Any, count: int) -> None:
    path = tmp_path / "x.h5"
    samples, names = [all_fields_sample(i) for i in range(count)], [f"näme/{i}" for i in range(count)]
    classes, metadata = {"label": ["a", "ü"]}, {"made": ["by", "a test"]}
    options: dict[str, Any] = {"class_names": classes, "metadata": metadata, "compression": compression}
    hr.write(path, samples, fields=ALL_FIELDS, names=names, **options)
    dataset = hr.open(path)
    assert dict(dataset.schema) == ALL_FIELDS
    assert (list(dataset.keys or []), dataset.class_names, dataset.metadata) == (names, classes, metadata)
    assert dataset.left_out == []
    for found, given in zip(dataset, samples, strict=True):
        assert all(same_value(*pair) for pair in zip(found, given, strict=True))
    for i, given in enumerate(samples):
        assert dataset.read_bytes([i], "jpg") == [given[3]]
    assert dataset.verify(decode=True).ok
    assert [one.name for one in tmp_path.iterdir()] == ["x.h5"]


def test_many_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "_CHUNK_BYTES", 64)
    monkeypatch.setattr(writer, "_REFERENCE_ROWS", 7)
    path = tmp_path / "x.hdf5"
    samples = [(i, bytes([i % 256]) * (i % 5), np.full((3, 2), i, "<i4")) for i in range(100)]
    fields = {"n": hr.Int(), "b": hr.Bytes(), "group/a": hr.NDArray("<i4", (3, 2))}
    hr.write(path, iter(samples), fields=fields)
    dataset = hr.open(path)
    assert dataset.keys is None
    for found, given in zip(dataset, samples, strict=True):
        assert all(same_value(*pair) for pair in zip(found, given, strict=True))
    with h5py.File(path) as file:
        assert file["group/a"].chunks == (2, 3, 2)
        assert file["b"].chunks == (7,)
        assert file["n"][:].tolist() == list(range(100))


def test_arrays_of_every_type(tmp_path: Path) -> None:
    path = tmp_path / "x.h5"
    dtypes = ["bool", "<i1", ">i2", "<u8", "<f2", ">f8", "<c8", ">c16"]
    fields = {dtype: hr.NDArray(dtype, (2, 2)) for dtype in dtypes}
    rng = np.random.default_rng(3)
    samples = [tuple(rng.integers(0, 2, (2, 2)).astype(dtype) for dtype in dtypes) for _ in range(5)]
    hr.write(path, samples, fields=fields)
    dataset = hr.open(path)
    assert dict(dataset.schema) == fields
    for found, given in zip(dataset, samples, strict=True):
        assert all(np.array_equal(*pair) for pair in zip(found, given, strict=True))


def test_values_of_the_same_length(tmp_path: Path) -> None:
    hr.write(tmp_path / "x.h5", [b"abc", b"def"], fields={"b": hr.Bytes()})
    assert [sample.b for sample in hr.open(tmp_path / "x.h5")] == [b"abc", b"def"]


def test_a_long_description(tmp_path: Path) -> None:
    path, metadata = tmp_path / "x.h5", ["x" * 100] * 1000
    hr.write(path, [1, 2], fields={"n": hr.Int()}, metadata=metadata)
    dataset = hr.open(path)
    assert (dataset.metadata, list(dataset.schema), dataset.left_out) == (metadata, ["n"], [])
    with h5py.File(path) as file:
        assert "__headrace__" in file


def test_names_that_are_no_text(tmp_path: Path) -> None:
    names = ["a\udcffb", ""]
    hr.write(tmp_path / "x.h5", [1, 2], fields={"n": hr.Int()}, names=names)
    assert hr.open(tmp_path / "x.h5").keys == names
    with pytest.raises(WriteError, match="its name has a NUL"):
        hr.write(tmp_path / "y.h5", [1], fields={"n": hr.Int()}, names=["a\0b"])
    assert [one.name for one in tmp_path.iterdir()] == ["x.h5"]


@pytest.mark.parametrize(
    ("fields", "options", "message"),
    [
        ({"x": hr.NDArray("S3", (2,))}, {}, "cannot be stored in an HDF5 file"),
        ({"x": hr.NDArray("f16", (2,))}, {}, "cannot be stored in an HDF5 file"),
        ({"x": hr.NDArray("f8", (1 << 14, 1 << 14))}, {}, "bytes, the most is 1073741824"),
        ({"__key__": hr.Int()}, {}, "can be called '__key__'"),
        ({"a": hr.Int(), "a/b": hr.Int()}, {}, "'a' and 'a/b' cannot both be fields"),
        ({"a": hr.Int()}, {"compression": "lzma"}, "compression must be None or 'gzip'"),
        ({"a": hr.Int()}, {"class_names": {"b": ["x"]}}, "class_names has b"),
    ],
)
def test_what_cannot_be_written_is_refused_before(
    tmp_path: Path, fields: dict[str, Any], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        hr.write(tmp_path / "x.h5", [1], fields=fields, **options)
    assert not list(tmp_path.iterdir())


def test_a_text_with_nul_and_an_abort_leave_nothing(tmp_path: Path) -> None:
    with pytest.raises(WriteError, match="NUL"):
        hr.write(tmp_path / "x.h5", ["a", "b\0c"], fields={"t": hr.Text()})
    unfinished = Hdf5Writer(tmp_path / "x.h5", {"n": hr.Int()})
    unfinished.append(3)
    assert (len(unfinished), unfinished.size_bytes) == (1, 8)
    unfinished.abort()
    unfinished.abort()
    assert not list(tmp_path.iterdir())


def test_a_file_that_exists_stays_until_the_new_one_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "x.h5"
    hr.write(path, [1, 2], fields={"n": hr.Int()})
    with pytest.raises(WriteError):
        hr.write(path, [1, "no"], fields={"n": hr.Int()}, force=True)
    assert [sample.n for sample in hr.open(path)] == [1, 2]
    hr.write(path, [3], fields={"n": hr.Int()}, force=True)
    assert [sample.n for sample in hr.open(path)] == [3]
