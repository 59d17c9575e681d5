"""HDF5 files that lie, lead elsewhere, or are damaged: an error or a note, and never a crash."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headrace as hr
from headrace.errors import CorruptSampleError, FormatError, HeadraceError
from headrace.formats.hdf5 import filters
from headrace.formats.hdf5.column_source import MAX_BLOCK_BYTES
from headrace.formats.hdf5.filters import Filter, fletcher32, undo
from headrace.formats.hdf5.heap import REFERENCE, Heap, HeapError

h5py = pytest.importorskip("h5py")

GOLDEN = Path(__file__).parents[3] / "golden" / "formats" / "table.h5"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "x.h5"


def left_out_of(path: Path) -> dict[str, str]:
    dataset: Any = hr.open(path)
    assert list(dataset.schema) == ["n"]
    return dict(line.split(": ", 1) for line in dataset.left_out)


# -- what leads elsewhere -------------------------------------------------------------------------------------


def test_links_are_not_followed(path: Path, tmp_path: Path) -> None:
    with h5py.File(tmp_path / "secret.h5", "w") as file:
        file["x"] = [5, 6]
    with h5py.File(path, "w") as file:
        file["n"] = [1, 2]
        file["out"] = h5py.ExternalLink(str(tmp_path / "secret.h5"), "/x")
        file["soft"] = h5py.SoftLink("/n")
        file["nowhere"] = h5py.SoftLink("/nothing")
        file.create_group("g")["again"] = file["/"]
    found = left_out_of(path)
    assert found["out"] == "a link to another file, which is not followed"
    assert found["soft"] == found["nowhere"] == "a soft link, which is not followed"
    assert "reached twice" in found["g/again"]


def test_data_in_other_files(path: Path, tmp_path: Path) -> None:
    (tmp_path / "raw").write_bytes(bytes(16))
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["x"] = [5, 6]
    layout = h5py.VirtualLayout((2,), "i8")
    layout[:] = h5py.VirtualSource(str(tmp_path / "other.h5"), "x", (2,))
    with h5py.File(path, "w") as file:
        file["n"] = [1, 2]
        file.create_dataset("external", (2,), "i8", external=[(str(tmp_path / "raw"), 0, 16)])
        file.create_virtual_dataset("virtual", layout)
    found = left_out_of(path)
    assert found["external"] == "its data lie in another file"
    assert found["virtual"].startswith("it is virtual")


def test_filters_that_need_a_plug_in(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HDF5_PLUGIN_PATH", str(path.parent))
    with h5py.File(path, "w") as file:
        file["n"] = [1, 2]
        for name, number in (("blosc", 32001), ("nbit", 5), ("scaled", 6)):
            plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
            plist.set_chunk((2,))
            if number == 6:
                plist.set_scaleoffset(h5py.h5z.SO_INT, 3)
            else:
                plist.set_filter(number, h5py.h5z.FLAG_OPTIONAL, (1, 2))
            h5py.h5d.create(file.id, name.encode(), h5py.h5t.NATIVE_INT64, h5py.h5s.create_simple((2,)), plist)
    found = left_out_of(path)
    assert found["blosc"].startswith("its chunks need the filter 32001")
    assert all("no plug-ins are loaded" in found[name] for name in ("blosc", "nbit", "scaled"))


def test_kinds_that_are_not_read(path: Path) -> None:
    with h5py.File(path, "w") as file:
        file["n"] = [1, 2]
        file["records"] = np.zeros(2, [("a", "i4"), ("b", "f4")])
        file.create_dataset("references", (2,), h5py.ref_dtype)
        file.create_dataset("arrays", (2,), np.dtype(("i4", (3,))))
        file.create_dataset("lists", (2, 3), h5py.vlen_dtype(np.int32))
        file.create_dataset("deep", (2,), h5py.vlen_dtype(h5py.string_dtype()))
        file["scalar"] = 3
        file["nothing"] = h5py.Empty("i4")
        file["empty"] = np.zeros((2, 0))
        file["long"] = np.zeros(2, np.longdouble)
        file["complex"] = np.zeros(2, "c8")
        file["type"] = np.dtype("i4")
        file["bad\nname"] = [1, 2]
    found = left_out_of(path)
    assert set(found) == {
        *("records", "references", "arrays", "lists", "deep", "scalar", "nothing"),
        *("empty", "long", "complex", "type", "bad\nname"),
    }
    assert "control character" in found["bad\nname"]


def test_only_what_cannot_be_read(path: Path) -> None:
    with h5py.File(path, "w") as file:
        file["x"] = h5py.ExternalLink("other.h5", "/x")
    with pytest.raises(FormatError, match=r"no dataset in it can be a field \(1 left out: x: a link to another file"):
        hr.open(path)


# -- numbers that lie -----------------------------------------------------------------------------------------


def test_chunks_that_would_take_all_memory(path: Path) -> None:
    with h5py.File(path, "w") as file:
        file["n"] = [1, 2]
        file.create_dataset("bomb", (2, 1 << 40), "i1", chunks=(1, 1 << 20), compression="gzip")
        file.create_dataset("rows", (2, 4 << 20), "f8", chunks=(100, 1 << 10), maxshape=(None, None))
        file.create_dataset("long", (1 << 50,), "i1", chunks=(100,))
    found = left_out_of(path)
    assert found["bomb"] == f"one row of it has more than {MAX_BLOCK_BYTES} bytes"
    assert "the chunks of one row have" in found["rows"]
    assert found["long"].startswith("it says 1,125,899,906,842,624 rows")


@pytest.mark.parametrize("by", ["the core", "zlib"])
def test_a_chunk_that_unpacks_to_more(by: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import zlib

    if by == "zlib":  # as where the core has no libdeflate
        monkeypatch.setattr(filters, "inflate_into", lambda stream, out: None)
    data = np.frombuffer(zlib.compress(bytes(10_000)), np.uint8)
    assert len(undo(data, [Filter(1, (4,))], 0, 10_000)) == 10_000
    with pytest.raises(ValueError, match="unpacks to more than 104 bytes"):
        undo(data, [Filter(1, (4,))], 0, 100)
    with pytest.raises(ValueError, match="unpacks to 10000"):
        undo(data, [Filter(1, (4,))], 0, 20_000)
    with pytest.raises(ValueError, match="cannot be unpacked"):
        undo(data[2:], [Filter(1, (4,))], 0, 10_000)
    with pytest.raises(ValueError, match="shuffled by 0 bytes"):
        undo(data, [Filter(2, (0,))], 0, len(data))
    with pytest.raises(ValueError, match="too short for its checksum"):
        undo(data[:3], [Filter(3, ())], 0, 3)


@pytest.mark.parametrize("size", [0, 1, 2, 7, 1000, 300_001])
def test_the_checksum_is_that_of_the_library(size: int) -> None:
    data = np.random.default_rng(size).integers(0, 256, size, dtype=np.uint8)
    first = second = 0
    for at in range(0, size, 2):
        first = (first + (int(data[at]) << 8) + (int(data[at + 1]) if at + 1 < size else 0)) % 65535
        second = (second + first) % 65535
    assert fletcher32(data) == second << 16 | first


def test_a_damaged_chunk_is_noticed(path: Path) -> None:
    with h5py.File(path, "w") as file:
        made = file.create_dataset("x", data=np.arange(40), chunks=(10,), fletcher32=True)
        at = made.id.get_chunk_info(2).byte_offset
    data = bytearray(path.read_bytes())
    data[at + 3] ^= 1
    path.write_bytes(data)
    dataset = hr.open(path)
    assert dataset[19].x == 19
    with pytest.raises(FormatError, match=rf"'x', chunk 2: .* checksum .*at byte {at}"):
        _ = dataset[20]
    assert dataset.verify().bad_samples == tuple(range(20, 30))


def test_a_heap_that_lies(path: Path) -> None:
    with h5py.File(path, "w") as file:
        made = file.create_dataset("x", (4,), h5py.vlen_dtype(np.uint8))
        for i in range(4):
            made[i] = np.arange(100, dtype=np.uint8)
        at = made.id.get_offset()
    data = bytearray(path.read_bytes())
    references = np.frombuffer(data, REFERENCE, 4, at).copy()
    references["count"][0] = 101
    references["address"][1] = 1 << 60
    references["number"][2] = 77
    data[at : at + 64] = references.tobytes()
    path.write_bytes(data)
    dataset = hr.open(path)
    for i, message in enumerate(("which has 100", "behind the end of the file", "which is not there")):
        with pytest.raises(CorruptSampleError, match=f"sample {i}, field 'x'.*{message}"):
            _ = dataset[i]
    assert dataset[3].x == bytes(range(100))
    assert dataset.verify().bad_samples == (0, 1, 2)
    mapped = np.frombuffer(b"GCOL\1\0\0\0" + (1 << 40).to_bytes(8, "little") + bytes(40), np.uint8)
    with pytest.raises(HeapError, match="there is none"):
        Heap(mapped).locate(np.array([(1, 0, 1)], REFERENCE), 1)


def test_a_description_that_lies(path: Path) -> None:
    hr.write(path, [(1, "a")], fields={"n": hr.Int(), "t": hr.Text()})
    with h5py.File(path, "r+") as file:
        text = file.attrs["headrace"].decode()
    for change, message in (
        (text.replace('"int"', '"text"'), r"'n' should be Text\(\), and the file holds numbers of int64"),
        (text.replace('"t"', '"u"'), "the field 'u' cannot be read"),
        (text.replace('"t"', '"../t"'), "no field can be called"),
        (text[:-1], "the description of its fields cannot be read"),
    ):
        with h5py.File(path, "r+") as file:
            file.attrs["headrace"] = np.bytes_(change)
        with pytest.raises(FormatError, match=message):
            hr.open(path)
    with h5py.File(path, "r+") as file:
        file.attrs["headrace"] = np.bytes_(text)
        file["n"].resize(5, axis=0)
    with pytest.raises(FormatError, match="the fields have different lengths: n 5, t 1"):
        hr.open(path)


@pytest.mark.parametrize("value", ["a text of any length", [1, 2], 5, np.array([b"ab", b"cd"])])
def test_a_description_of_another_kind_is_not_read(path: Path, value: Any) -> None:
    with h5py.File(path, "w") as file:
        file["n"] = [1, 2]
        file.attrs["headrace"] = value
    assert left_out_of(path)["headrace"] == "it should describe the fields, and is no text of fixed length"


def test_a_heap_that_goes_round_does_not_hang(path: Path) -> None:
    hr.write(path, [(1, "a")], fields={"n": hr.Int(), "t": hr.Text()}, metadata="x" * 500)
    data = bytearray(path.read_bytes())
    for at in range(len(data) - 4):
        if data[at : at + 4] == b"GCOL":
            data[at + 16 : at + 4096] = b"\1\0" + bytes(4078)  # objects without bytes, again and again
    path.write_bytes(data[: path.stat().st_size])
    done = subprocess.run(
        [sys.executable, "-c", "import sys, headrace as hr; d = hr.open(sys.argv[1]); print(d.verify().ok)", str(path)],
        timeout=60,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "False\n", done.stderr


# -- damage everywhere ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, 7, 8, 100, 2000, 50_000, 99_000])
def test_a_file_that_was_cut_short(path: Path, size: int) -> None:
    path.write_bytes(GOLDEN.read_bytes()[:size])
    with pytest.raises(FormatError, match=r"x\.h5: the HDF5 library cannot read it"):
        hr.open(path)


def test_a_file_that_is_cut_short_while_it_is_read(path: Path) -> None:
    path.write_bytes(GOLDEN.read_bytes())
    dataset = hr.open(path)
    with path.open("r+b") as file:
        file.truncate(4096)
    with pytest.raises(HeadraceError):
        _ = dataset[15]


def read_damaged(folder: str, first: int, count: int) -> None:
    """Read files with some bytes changed; run in a process of its own, which may crash."""
    whole, path = GOLDEN.read_bytes(), Path(folder, "x.h5")
    for seed in range(first, first + count):
        rng = random.Random(seed)
        data = bytearray(whole)
        for _ in range(rng.choice([1, 4])):
            at = rng.randrange(len(data) - 8) if seed % 3 else rng.choice([0, 6400, 96_000]) + rng.randrange(2000)
            data[at : at + 8] = rng.choice([b"\xff" * 8, bytes(8), rng.randbytes(8), bytes([data[at] ^ 1])])
        path.unlink(missing_ok=True)
        path.write_bytes(data)
        try:
            with hr.open(path) as dataset:
                dataset.verify(workers=1)
                _ = dataset[:]
        except HeadraceError:
            pass


@pytest.mark.slow
def test_damage_crashes_nothing(tmp_path: Path) -> None:
    code = f"import sys; sys.path.insert(0, {str(Path(__file__).parents[4])!r})\n"
    code += "from tests.unit.formats.hdf5.test_hostile import read_damaged\n"
    code += f"import logging; logging.disable(50); read_damaged({str(tmp_path)!r}, 0, 500)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=150, check=False)
    assert done.returncode == 0, done.stderr[-2000:]


def test_some_damage(tmp_path: Path) -> None:
    read_damaged(str(tmp_path), 1000, 60)
