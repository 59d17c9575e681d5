"""Damaged and hostile files: only headrace's own errors come out, and nothing hangs."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.unit.formats.arrow.tables import GOLDEN, samples, save, write

import headrace
from headrace.errors import CorruptSampleError, FormatError, HeadraceError
from headrace.formats.arrow import parquet_parts

if TYPE_CHECKING:
    from pathlib import Path

FILES = ("groups.parquet", "file.arrow", "feather.feather", "hf_saved/data-00000-of-00001.arrow")


def read_all(path: Path) -> None:
    """Open and read all that there is; headrace's own errors are fine."""
    try:
        with headrace.open(path) as dataset:
            everything = np.arange(min(len(dataset), 1000))
            for name in dataset.schema:
                try:
                    dataset.read_values(everything, name)
                except HeadraceError:
                    continue
            _ = dataset.keys, dataset.class_names
    except HeadraceError:
        return


@pytest.mark.parametrize("name", FILES)
def test_flipped_bytes_and_cut_files(name: str, tmp_path: Path) -> None:
    data = bytearray((GOLDEN / name).read_bytes())
    random = np.random.default_rng(5)
    path = tmp_path / f"x{(GOLDEN / name).suffix}"
    for turn in range(150):
        broken = bytearray(data)
        # most of a file is pictures; what is worth breaking is at both ends, and around buffers
        middle = int(random.integers(0, len(data)))
        for place in (middle, int(random.integers(0, 4096)), len(data) - 1 - int(random.integers(0, 4096))):
            if random.random() < 0.6:
                broken[place] = int(random.integers(0, 256))
        if turn % 5 == 0:
            broken = broken[:middle]
        path.write_bytes(broken)
        read_all(path)


@pytest.mark.parametrize("ending", ["parquet", "arrow"])
def test_flipped_bytes_of_all_kinds_of_fields(ending: str, tmp_path: Path) -> None:
    fields = samples(8)
    data = bytearray(write(tmp_path / f"x.{ending}", fields).read_bytes())
    random = np.random.default_rng(6)
    path = tmp_path / f"y.{ending}"
    for _ in range(150):
        broken = bytearray(data)
        for place in random.integers(0, len(data), 4).tolist():
            broken[place] ^= 1 << int(random.integers(0, 8))
        path.write_bytes(broken)
        read_all(path)


@pytest.mark.parametrize(
    ("name", "data", "problem"),
    [
        ("x.parquet", b"", "begins with"),
        ("x.parquet", b"PAR1", "footer"),
        ("x.parquet", b"PARE" + bytes(100) + b"PARE", "encrypted"),
        ("x.parquet", b"PAR1" + bytes(100) + b"\xff\xff\xff\x7fPAR1", "footer"),
        ("x.arrow", b"", "neither"),
        ("x.arrow", b"hello world", "neither"),
        ("x.arrow", b"FEA1" + bytes(100), "Feather version 1"),
        ("x.arrow", b"ARROW1\0\0", "footer"),
        ("x.arrow", b"ARROW1\0\0" + bytes(50) + b"\xff\xff\xff\x7fARROW1", "footer"),
        ("x.arrow", b"\xff\xff\xff\xff\xf0\xff\xff\x7f", "stream"),
    ],
)
def test_what_is_no_such_file(name: str, data: bytes, problem: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(FormatError, match=problem):
        headrace.open(tmp_path / name)


def test_a_name_that_says_something_else(tmp_path: Path) -> None:
    (tmp_path / "x.arrow").write_bytes((GOLDEN / "groups.parquet").read_bytes())
    with pytest.raises(FormatError, match=r"a \.parquet file, though its name ends in \.arrow"):
        headrace.open(tmp_path / "x.arrow")


def test_places_outside_of_the_data(tmp_path: Path) -> None:
    for table in ([0, 5, 1 << 30, 7], [0, -3, 4, 7], [0, 6, 2, 7]):
        buffers = [None, pa.py_buffer(np.array(table, np.int32)), pa.py_buffer(b"1234567")]
        lying = pa.Array.from_buffers(pa.binary(), 3, buffers)
        path = tmp_path / "x.arrow"
        data = io.BytesIO()
        with pa.ipc.new_file(data, pa.schema([("data", pa.binary())])) as writer:
            writer.write_batch(pa.record_batch([lying], ["data"]))
        path.write_bytes(data.getvalue())
        with pytest.raises(CorruptSampleError, match="outside of the data"):
            headrace.open(path).read_bytes(range(3), "data")
        assert not headrace.open(path).verify().ok


def test_codes_outside_of_the_dictionary(tmp_path: Path) -> None:
    codes = pa.array([0, 1, 7], pa.int8())
    lying = pa.DictionaryArray.from_arrays(codes, pa.array(["a", "b"]), safe=False)
    dataset = headrace.open(save(tmp_path / "x.arrow", pa.table({"word": lying})))
    assert dataset[1].word == "b"
    with pytest.raises(CorruptSampleError, match="sample 2, field 'word'"):
        _ = dataset[2]


def test_nested_values_that_lie(tmp_path: Path) -> None:
    good = pa.array([[1], [2, 3], []], pa.list_(pa.int64()))
    path = save(tmp_path / "x.arrow", pa.table({"list": good}))
    table = np.array([0, 1, 3, 3], np.int32).tobytes()
    data = path.read_bytes()
    assert data.count(table) == 1
    path.write_bytes(data.replace(table, np.array([0, 1, 1 << 20, 3], np.int32).tobytes()))
    with pytest.raises(FormatError, match="record batch 0, column 'list' cannot be read"):
        _ = headrace.open(path)[0]


def test_page_checksums_find_a_flipped_bit(tmp_path: Path) -> None:
    fields = {"data": headrace.Bytes()}
    path = write(tmp_path / "x.parquet", [(b"needle" * 100,)], fields=fields, compression="none")
    data = path.read_bytes()
    path.write_bytes(data.replace(b"needle" * 100, b"needle" * 99 + b"noodle"))
    with pytest.raises(FormatError, match=r"row group 0, column 'data' .*CRC"):
        _ = headrace.open(path)[0]
    assert headrace.open(path, checksums=False)[0].data.endswith(b"noodle")
    assert [problem.sample for problem in headrace.verify(path).problems] == [0]


def test_a_page_that_grows_beyond_all_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    word = "x" * 10_000
    path = save(tmp_path / "x.parquet", pa.table({"text": [word] * 20_000}), rows=20_000)  # a dictionary of one word
    assert path.stat().st_size < 100_000
    monkeypatch.setattr(parquet_parts, "_MANY_BYTES", 1 << 20)
    monkeypatch.setattr(parquet_parts, "available_bytes", lambda: 1 << 24)
    with pytest.raises(FormatError, match="smaller row groups"):
        headrace.open(path).read_bytes([0], "text")


def test_more_rows_than_a_file_can_hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = save(tmp_path / "x.parquet", pa.table({"n": [1, 2]}))
    monkeypatch.setattr(parquet_parts, "_MAX_ROWS_FOR_BYTE", 0)
    with pytest.raises(FormatError, match="the footer tells of 2 rows"):
        headrace.open(path)


def test_a_compressed_stream_is_bounded(tmp_path: Path) -> None:
    options: Any = pa.ipc.IpcWriteOptions(compression="zstd")
    path = save(tmp_path / "stream.arrow", pa.table({"n": np.zeros(100_000)}), rows=10_000, options=options)
    assert headrace.open(path)[99_999].n == 0
    with pytest.raises(FormatError, match="no random access"):
        headrace.open(path, kept_bytes=1000)


def test_a_column_of_other_length_than_the_row_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = save(tmp_path / "x.parquet", pa.table({"n": [1, 2, 3]}))
    dataset = headrace.open(path)
    monkeypatch.setattr(
        pq.ParquetFile, "iter_batches", lambda *_, **__: iter([pa.record_batch([pa.array([1])], ["n"])])
    )
    with pytest.raises(FormatError, match="it has 1 row, and 3 are expected"):
        _ = dataset[0]
