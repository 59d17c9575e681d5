"""Arrays that numpy has saved: .npy and .npz, read and written; every refusal."""

from __future__ import annotations

import io
import json
import logging
import pickle
import struct
import threading
import zipfile
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.helpers import image_file, picture

import headrace as hr
from headrace.errors import ClosedError, CorruptSampleError, FormatError, HeadraceError
from headrace.formats.decodes import Coded
from headrace.formats.npy import NpyDataset, NpyWriter, NpzWriter
from headrace.formats.npy.header import build_header
from headrace.storage import is_mapped_file

if TYPE_CHECKING:
    from collections.abc import Callable

GOLDEN = Path(__file__).parents[2] / "golden" / "formats"
TRUTH = [json.loads(text) for text in np.load(GOLDEN / "truth.npy")]
RAW = np.load(GOLDEN / "raw.npy")


def save(path: Path, array: Any) -> Path:
    np.save(path, array)
    return path


# -- golden files --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["plain.npz", "packed.npz"])
def test_golden_npz(name: str) -> None:
    with hr.open(GOLDEN / name) as dataset:
        assert dict(dataset.schema) == {
            "image": hr.NDArray("uint8", (16, 20, 3)),
            "label": hr.Int(),
            "score": hr.Float(),
            "box": hr.NDArray("float32", (4,)),
        }
        assert len(dataset) == 20
        for i, (sample, truth) in enumerate(zip(dataset, TRUTH, strict=True)):
            assert (sample.label, sample.score) == (truth["label"], truth["score"])
            assert np.array_equal(sample.image, RAW[i])
            assert sample.box.tolist() == np.float32(truth["box"]).tolist()
        report = dataset.verify(decode=True)
        assert (report.ok, report.checksums_checked, report.samples_checked) == (True, 4, 20)
        assert ("unpacked" in dataset.reading) is (name == "packed.npz")


def test_golden_npy() -> None:
    box = hr.open(GOLDEN / "fortran.npy")
    assert dict(box.schema) == {"data": hr.NDArray("float32", (4,))}
    assert np.array_equal(np.stack([sample.data for sample in box]), np.float32([t["box"] for t in TRUTH]))
    assert box.read_arrays(np.array([3, 1]), "data", np.empty).flags.c_contiguous
    score = hr.open(GOLDEN / "bigendian.npy")
    assert dict(score.schema) == {"data": hr.Float()}
    values = score.read_values(np.arange(20), "data")
    assert values.dtype == np.float64
    assert values.tolist() == [truth["score"] for truth in TRUTH]
    texts = hr.open(GOLDEN / "truth.npy")
    assert dict(texts.schema) == {"data": hr.Text()}
    assert [json.loads(sample.data) for sample in texts] == TRUTH
    assert json.loads(texts.read_bytes([4], "data")[0]) == TRUTH[4]


def test_golden_objects_are_refused_unless_asked_for() -> None:
    with pytest.raises(FormatError, match=r"objects\.npz: array 'extra' holds Python objects.*allow_pickle=True"):
        hr.open(GOLDEN / "objects.npz")
    dataset = hr.open(GOLDEN / "objects.npz", allow_pickle=True)
    assert dataset.schema["extra"] == Coded("pickle")
    assert dataset[19].extra == {"a": 1}
    assert pickle.loads(dataset.read_bytes([0], "extra")[0]) == {"a": 1}
    assert pickle.loads(pickle.dumps(dataset))[2].extra == {"a": 1}


# -- what an array becomes -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("array", "field", "values"),
    [
        (np.array([1, -2], np.int8), hr.Int(), [1, -2]),
        (np.array([1, 2], ">u2"), hr.Int(), [1, 2]),
        (np.array([True, False]), hr.Int(), [1, 0]),
        (np.array([0.5, 1], np.float16), hr.Float(), [0.5, 1.0]),
        (np.array([1 + 2j]), hr.NDArray("complex128", (1,)), [[1 + 2j]]),
        (np.array(["é", "abc"]), hr.Text(), ["é", "abc"]),
        (np.array(["é", "abc"], ">U3"), hr.Text(), ["é", "abc"]),
        (np.array([b"a", b"bc"]), hr.Bytes(), [b"a", b"bc"]),
        (np.arange(6, dtype=">i4").reshape(3, 2), hr.NDArray("int32", (2,)), [[0, 1], [2, 3], [4, 5]]),
        (np.array([["a", "b"]]), hr.NDArray("<U1", (2,)), [["a", "b"]]),
        (np.zeros((0, 4), np.float32), hr.NDArray("float32", (4,)), []),
    ],
)
def test_what_an_array_becomes(array: Any, field: Any, values: Any, tmp_path: Path) -> None:
    for order in ("C", "F"):
        dataset = hr.open(save(tmp_path / "x.npy", np.asarray(array, order=order)))
        assert dict(dataset.schema) == {"data": field}
        found = [sample.data for sample in dataset]
        assert [one.tolist() if isinstance(one, np.ndarray) else one for one in found] == values


def test_numbers_that_no_int_holds(tmp_path: Path) -> None:
    path = save(tmp_path / "x.npy", np.array([1, 2**63], np.uint64))
    dataset = hr.open(path)
    assert dataset[0].data == 1
    with pytest.raises(CorruptSampleError, match=r"sample 1.*NDArray\('uint64', \(1,\)\)"):
        _ = dataset[1]
    assert hr.open(path, fields={"data": hr.NDArray("uint64", (1,))})[1].data.tolist() == [2**63]


def test_fields_of_the_caller(tmp_path: Path) -> None:
    pixels = np.stack([picture(i, 8, 10) for i in range(4)])
    path = save(tmp_path / "x.npy", pixels)
    dataset = hr.open(path, fields={"image": hr.Image()})
    assert np.array_equal(dataset[2].image, pixels[2])
    spans = dataset.image_spans(np.array([3, 0]), "image")
    assert (spans.modes.tolist(), spans.widths.tolist(), spans.heights.tolist()) == ([1, 1], [10, 10], [8, 8])
    (batch,) = hr.Loader(dataset, 4, pipelines={"image": [hr.ops.CenterCrop(8)]})
    assert batch.image.shape == (4, 8, 8, 3)
    hr.write(tmp_path / "x.beton", dataset, fields={"image": hr.Image(mode="raw")})
    assert np.array_equal(hr.open(tmp_path / "x.beton")[3].image, pixels[3])
    with pytest.raises(FormatError, match=r"array of uint8 \(4, 8, 10, 3\), which cannot be read as Int"):
        hr.open(path, fields={"data": hr.Int()})
    with pytest.raises(ValueError, match="no field wrong"):
        hr.open(path, fields={"wrong": hr.Int(), "data": hr.Image()})


def test_pixels_that_look_like_a_file_stay_pixels(tmp_path: Path) -> None:
    pixels = np.zeros((1, 4, 4, 3), np.uint8)
    pixels.reshape(-1)[:3] = 0xFF, 0xD8, 0xFF
    dataset = hr.open(save(tmp_path / "x.npy", pixels), fields={"image": hr.Image()})
    (image,) = dataset.sources()[0]
    assert np.array_equal(image, pixels[0])


def test_decode(tmp_path: Path) -> None:
    texts = np.array([b"[1]", b"[2, 3]"])
    np.savez(tmp_path / "x.npz", a=texts, n=np.arange(2))
    assert [s.a for s in hr.open(tmp_path / "x.npz", decode="json")] == [[1], [2, 3]]
    assert [s.a for s in hr.open(tmp_path / "x.npz", decode={"a": "text"})] == ["[1]", "[2, 3]"]
    with pytest.raises(ValueError, match="allow_pickle=True"):
        hr.open(tmp_path / "x.npz", decode="pickle")


def test_the_length_that_most_arrays_have(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    arrays = {
        "a": np.zeros(5),
        "b": np.zeros((5, 2)),
        "c": np.zeros(9),
        "mean": np.float32(3),
        "none": np.zeros((5, 0)),
    }
    np.savez(tmp_path / "x.npz", **arrays)
    with zipfile.ZipFile(tmp_path / "x.npz", "a") as file:
        file.writestr("notes.txt", "hello")
        file.writestr("deep/x.npy", npy_bytes(np.zeros(5)))
    with caplog.at_level(logging.WARNING, "headrace"):
        dataset = hr.open(tmp_path / "x.npz")
    assert (len(dataset), list(dataset.schema)[:2]) == (5, ["a", "b"])
    said = "\n".join(dataset.left_out)
    for part in ("'c': it has 9 rows, the others have 5", "'mean': it is one value", "'none': there is nothing in"):
        assert part in said
        assert part in caplog.text
    assert "notes.txt: it is no .npy" in said
    np.savez(tmp_path / "y.npz", a=np.zeros(5), b=np.zeros(7))
    assert list(hr.open(tmp_path / "y.npz").schema) == ["b"]  # as often: the longer


def npy_bytes(array: Any, **options: Any) -> bytes:
    out = io.BytesIO()
    np.save(out, array, **options)
    return out.getvalue()


# -- writing -------------------------------------------------------------------------------------------------


FIELDS = {
    "image": hr.Image(),
    "data": hr.Bytes(),
    "text": hr.Text(),
    "json": hr.Json(),
    "array": hr.NDArray(">f4", (2,)),
    "label": hr.Int(),
}


def rows(count: int) -> list[tuple[Any, ...]]:
    return [
        (image_file(picture(i, 9, 8 + i), "JPEG"), bytes([i]) * i, "ü" * i, {"i": i}, np.full(2, i, ">f4"), i % 3)
        for i in range(count)
    ]


@pytest.mark.parametrize("compressed", [False, True])
def test_all_that_a_npz_holds(compressed: bool, tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    about: dict[str, Any] = {"class_names": {"label": ["a", "b", "c"]}, "metadata": {"x": [1]}}
    names = [f"n/{i}\udcff" for i in range(7)]
    hr.write(path, rows(7), fields=FIELDS, names=names, compressed=compressed, **about)
    dataset = hr.open(path)
    assert dict(dataset.schema) == FIELDS
    assert (dataset.keys, dataset.class_names, dataset.metadata) == (names, about["class_names"], about["metadata"])
    assert dataset.read_bytes([3, 1], "image") == [rows(7)[3][0], rows(7)[1][0]]
    assert dataset["n/5\udcff"].text == "ü" * 5
    assert dataset.view("array").tolist() == [[i, i] for i in range(7)]
    with pytest.raises(ValueError, match="'text' is no array of numbers"):
        dataset.view("text")
    with zipfile.ZipFile(path) as file:
        assert file.testzip() is None
        assert all(bool(info.compress_type) is compressed for info in file.infolist())


def test_items_of_a_npz_are_aligned(tmp_path: Path) -> None:
    hr.write(tmp_path / "x.npz", rows(3), fields=FIELDS)
    base = hr.open(tmp_path / "x.npz")
    for name in ("array", "label"):
        assert base.view(name).ctypes.data % 64 == 0


def test_zip64(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in files of more than 4 GiB, without writing one."""
    monkeypatch.setattr(zipfile, "ZIP64_LIMIT", 200)
    monkeypatch.setattr(zipfile, "ZIP_FILECOUNT_LIMIT", 2)
    hr.write(tmp_path / "x.npz", rows(4), fields=FIELDS, names=list("abcd"))
    data = (tmp_path / "x.npz").read_bytes()
    assert b"PK\x06\x06" in data
    end = data.rindex(b"PK\x05\x06") + 8
    data = data[:end] + struct.pack("<2H2I", 0xFFFF, 0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF) + data[end + 12 :]
    (tmp_path / "x.npz").write_bytes(data)
    assert [sample.text for sample in hr.open(tmp_path / "x.npz")] == ["", "ü", "üü", "üüü"]
    assert np.load(tmp_path / "x.npz")["label"].tolist() == [0, 1, 2, 0]
    place = data.rindex(b"PK\x06\x07") + 8
    for wrong in (2**63, len(data), 5):
        (tmp_path / "y.npz").write_bytes(data[:place] + struct.pack("<Q", wrong) + data[place + 8 :])
        with pytest.raises(FormatError, match="the end of its directory"):
            hr.open(tmp_path / "y.npz")


def test_a_large_npz_waits_on_the_disk(tmp_path: Path) -> None:
    values = [np.full(1 << 20, i, np.uint8) for i in range(20)]
    hr.write(tmp_path / "x.npz", values, fields={"a": hr.NDArray("uint8", (1 << 20,))})
    assert [p.name for p in tmp_path.iterdir()] == ["x.npz"]
    assert [int(sample.a[-1]) for sample in hr.open(tmp_path / "x.npz")] == list(range(20))


def test_the_same_data_are_the_same_bytes(tmp_path: Path) -> None:
    for name, workers in (("x.npz", 1), ("y.npz", 3)):
        hr.write(tmp_path / name, rows(40), fields=FIELDS, workers=workers)
    assert (tmp_path / "x.npz").read_bytes() == (tmp_path / "y.npz").read_bytes()


def test_npy_from_a_generator_with_names(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "headrace"), NpyWriter(tmp_path / "x.npy", {"n": hr.Float()}) as writer:
        for i in range(3):
            writer.append(i / 2, name=f"n{i}")
    assert np.load(tmp_path / "x.npy").tolist() == [0.0, 0.5, 1.0]
    assert caplog.text.count("no place for the names of samples") == 1


@pytest.mark.parametrize(
    ("create", "fields", "options", "message"),
    [
        (NpyWriter, {"a": hr.Int(), "b": hr.Int()}, {}, "holds one field"),
        (NpyWriter, {"a": hr.Text()}, {}, r"'a' \(text\) is no array"),
        (NpyWriter, {"a": hr.Image()}, {}, "write a .npz"),
        (NpzWriter, {}, {}, "one field at least"),
        (NpzWriter, {"a": Coded("npy")}, {}, r"'a' \(coded\)"),
        (NpzWriter, {"a": hr.Text(), "a.values": hr.Int()}, {}, "'a.values'"),
        (NpzWriter, {"__headrace__": hr.Int()}, {}, "other names"),
        (NpzWriter, {"a": hr.Int()}, {"class_names": {"b": ["x"]}}, "'b', which is no field"),
        (NpzWriter, {"a": hr.Int()}, {"metadata": object()}, "JSON"),
    ],
)
def test_what_cannot_be_written(create: Any, fields: Any, options: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        create(tmp_path / "x.npz", fields, **options)
    assert list(tmp_path.iterdir()) == []


# -- pictures for the loader ---------------------------------------------------------------------------------


@pytest.mark.parametrize("compressed", [False, True])
def test_tile_indices_beside_a_npz(compressed: bool, tmp_path: Path) -> None:
    files = [image_file(picture(i, 96, 128), "JPEG") for i in range(6)]
    path = tmp_path / "x.npz"
    hr.write(path, files, fields={"image": hr.Image()}, compressed=compressed)
    crop = {"image": [hr.ops.RandomResizedCrop(32)]}
    (plain,) = hr.Loader(path, 6, seed=1, pipelines=crop)
    assert hr.index(path) == f"{path}.annex"
    dataset = hr.open(path)
    spans = dataset.image_spans(np.arange(6), "image")
    assert spans.tile_indices is not None
    assert is_mapped_file(spans.base) is not compressed
    assert dataset.verify(decode=True).ok
    (indexed,) = hr.Loader(dataset, 6, seed=1, pipelines=crop)
    assert np.array_equal(indexed.image, plain.image)
    hr.write(path, files[::-1], fields={"image": hr.Image()}, compressed=compressed, force=True)
    other = hr.open(path)
    with pytest.warns(RuntimeWarning, match="decoded without their indices"):
        other.image_spans(np.arange(6), "image")
    assert not other.verify().ok


def test_what_has_no_tile_indices(tmp_path: Path) -> None:
    hr.write(tmp_path / "x.npz", [1], fields={"n": hr.Int()})
    hr.index(tmp_path / "x.npz")
    assert hr.open(tmp_path / "x.npz").has_checksums
    assert hr.open(tmp_path / "x.npz").tile_index is None
    with pytest.raises(ValueError, match=r"names is for \.beton files"):
        hr.index(tmp_path / "x.npz", names=["a"])
    with pytest.raises(FormatError, match="'n' holds no pictures, but int"):
        hr.open(tmp_path / "x.npz").image_spans(np.arange(1), "n")


def test_pictures_of_several_kinds(tmp_path: Path) -> None:
    pictures = [picture(i, 6, 7) for i in range(3)]
    files = [image_file(pictures[0], "PNG"), image_file(pictures[1], "JPEG"), image_file(pictures[2], "PNG")]
    hr.write(tmp_path / "x.npz", files, fields={"image": hr.Bytes()})
    dataset = hr.open(tmp_path / "x.npz", decode="image")
    assert np.array_equal(dataset[2].image, pictures[2])
    first, second, third = dataset.image_spans(np.arange(3), "image").modes.tolist()
    assert (second, {first, third} <= {1, 2}) == (0, True)  # pixels, or a PNG to decode
    fortran = save(tmp_path / "f.npy", np.asfortranarray(np.stack(pictures)))
    spans = hr.open(fortran, fields={"image": hr.Image()}).image_spans(np.array([2, 0]), "image")
    assert spans.base.tobytes() == pictures[2].tobytes() + pictures[0].tobytes()


# -- bad files -----------------------------------------------------------------------------------------------


def header_of(text: str, *, version: int = 1, size: int | None = None) -> bytes:
    data = text.encode()
    return b"\x93NUMPY" + bytes((version, 0)) + struct.pack("<H", len(data) if size is None else size) + data


PLAIN = "{'descr': '<i8', 'fortran_order': False, 'shape': (2,), }"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "no array that numpy has saved"),
        (b"\x93NUMP", "no array that numpy has saved"),
        (b"\x93NUMPY", "version 0"),
        (header_of(PLAIN, version=9) + bytes(16), "version 9"),
        (b"\x93NUMPY\x01\x00\x05", "ends within its header"),
        (b"\x93NUMPY\x02\x00\xff\xff\xff\x7f", "header of 2147483647 bytes"),
        (header_of(PLAIN, size=500), "does not fit"),
        (header_of(PLAIN) + bytes(15), "needs 83 bytes, there are 82"),
        (header_of(PLAIN) + bytes(17), "more was written behind it"),
        (header_of(PLAIN.replace("(2,)", "(2, 9223372036854775807)")) + bytes(16), "more items than there can be"),
        (header_of(PLAIN.replace("(2,)", "(99999999999999999999,)")) + bytes(16), "odd shape"),
        (header_of(PLAIN.replace("(2,)", "(-2,)")) + bytes(16), "cannot be read"),
        (header_of(PLAIN.replace("(2,)", f"({'1,' * 40})")) + bytes(16), "odd shape"),
        (header_of(PLAIN.replace("(2,)", "()")) + bytes(8), "one value, without an axis"),
        (header_of(PLAIN.replace("'<i8'", "[('a', '<i8')]")) + bytes(16), "records of several values"),
        (header_of(PLAIN.replace("<i8", "|V8")) + bytes(16), "does not know"),
        (header_of(PLAIN.replace("<i8", "<U0")), "items of no bytes"),
        (header_of(PLAIN.replace("<i8", "nonsense")) + bytes(16), "not a single plain dtype"),
        (header_of(PLAIN.replace("False", "0")) + bytes(16), "cannot be read"),
        (header_of(PLAIN.replace("False", "'x'")) + bytes(16), "odd fortran_order"),
        (header_of(PLAIN[:-1] + "'descr': '<i4'}") + bytes(16), "cannot be read"),
        (header_of("__import__('os')") + bytes(16), "cannot be read"),
        (header_of("(" * 9000) + bytes(16), "cannot be read"),
        (header_of(PLAIN.replace("<i8", "|O")) + b"cos\nsystem\n.", "holds Python objects"),
    ],
)
def test_a_npy_that_is_none(data: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "x.npy").write_bytes(data)
    with pytest.raises(FormatError, match=message) as caught:
        NpyDataset(tmp_path / "x.npy")
    assert str(tmp_path / "x.npy") in str(caught.value)


def test_headers_that_others_write(tmp_path: Path) -> None:
    texts = (
        '{"shape": (2,), "fortran_order": False, "descr": "<i8"}',
        "{'descr':'<i8','fortran_order':False,'shape':(2L,)}\n",
    )
    for text in texts:
        (tmp_path / "x.npy").write_bytes(header_of(text) + np.arange(2).tobytes())
        assert [sample.data for sample in hr.open(tmp_path / "x.npy")] == [0, 1]
    (tmp_path / "x.npy").write_bytes(build_header(np.dtype("<i8"), (1,), size_bytes=256) + bytes(8))
    assert np.load(tmp_path / "x.npy").tolist() == [0]


def test_text_that_is_none(tmp_path: Path) -> None:
    data = build_header(np.dtype("<U2"), (2,)) + "ab".encode("utf-32-le") + b"\xff" * 8
    (tmp_path / "x.npy").write_bytes(data)
    dataset = hr.open(tmp_path / "x.npy")
    assert dataset[0].data == "ab"
    with pytest.raises(CorruptSampleError, match="sample 1"):
        _ = dataset[1]
    assert [problem.sample for problem in dataset.verify().problems] == [1]


def edited(change: Callable[[bytearray, dict[str, int]], None], *, compressed: bool = False) -> bytes:
    """A .npz with something changed in it; the function is told where things are."""
    out = io.BytesIO()
    (np.savez_compressed if compressed else np.savez)(out, a=np.arange(4), b=np.arange(4.0))
    data = bytearray(out.getvalue())
    end = data.rindex(b"PK\x05\x06")
    directory = struct.unpack_from("<I", data, end + 16)[0]
    change(data, {"end": end, "entry": directory, "local": 0})
    return bytes(data)


def put(name: str, offset: int, code: str, value: Any) -> Callable[[bytearray, dict[str, int]], None]:
    return lambda data, places: struct.pack_into(code, data, places[name] + offset, value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (put("end", 0, "<4s", b"PKxx"), "directory at the end of a zip is missing"),
        (put("end", 12, "<I", 1 << 30), "does not end before byte"),
        (put("end", 10, "<H", 9999), "9,999 members do not fit"),
        (put("end", 10, "<H", 3), "3 members|damaged|no whole"),
        (put("entry", 0, "<4s", b"XXXX"), "directory is damaged"),
        (put("entry", 8, "<H", 1), "is encrypted"),
        (put("entry", 10, "<H", 12), "method 12|is not member"),
        (put("entry", 20, "<I", 1 << 30), "does not fit into the file"),
        (put("entry", 24, "<I", 7), "does not fit into the file"),
        (put("entry", 28, "<H", 60000), "directory is damaged"),
        (put("entry", 42, "<I", 1 << 31), "should begin at byte"),
        (put("entry", 42, "<I", 3), "is not member"),
        (put("local", 8, "<H", 8), "is not member"),
        (put("local", 28, "<H", 65535), "is not member"),
        (put("local", 30, "<c", b"z"), "is not member"),
    ],
)
def test_a_npz_that_contradicts_itself(change: Any, message: str, tmp_path: Path) -> None:
    (tmp_path / "x.npz").write_bytes(edited(change))
    with pytest.raises(FormatError, match=message):
        hr.open(tmp_path / "x.npz")


def test_members_that_share_bytes_or_a_name(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as file:
        file.writestr("a.npy", npy_bytes(np.zeros(3)))
        with pytest.warns(UserWarning, match="Duplicate"):
            file.writestr("a.npy", npy_bytes(np.zeros(3)))
    with pytest.raises(FormatError, match=r"two members are called 'a\.npy'"):
        hr.open(tmp_path / "x.npz")
    data = edited(lambda data, places: None)
    end = data.rindex(b"PK\x05\x06")
    (begin,) = struct.unpack_from("<I", data, end + 16)
    entry = data[begin : data.index(b"PK\x01\x02", begin + 4)]
    tail = struct.pack("<4s4H2IH", b"PK\x05\x06", 0, 0, 2, 2, 2 * len(entry), begin, 0)
    (tmp_path / "x.npz").write_bytes(data[:begin] + entry + entry + tail)
    with pytest.raises(FormatError, match="overlap"):
        hr.open(tmp_path / "x.npz")


def test_a_packed_member_is_checked(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"

    def first(data: bytes) -> tuple[int, int]:
        name, extra = struct.unpack_from("<HH", data, 26)
        return 30 + name + extra, data.index(b"PK\x03\x04", 4)

    data = bytearray(edited(put("entry", 16, "<I", 5), compressed=True))
    path.write_bytes(data)
    dataset = hr.open(path)
    with pytest.raises(FormatError, match=r"'a\.npy' has the CRC-32 .* 00000005 expected"):
        _ = dataset[0]
    assert [problem.field for problem in dataset.verify().problems] == ["a"]
    data = bytearray(edited(lambda data, places: None, compressed=True))
    begin, end = first(data)
    data[begin:end] = b"\xff" * (end - begin)
    path.write_bytes(data)
    with pytest.raises(FormatError, match=r"'a\.npy' cannot be unpacked"):
        hr.open(path)


def bomb(path: Path, array_bytes: int, declared: int) -> Path:
    """A .npz with one member that unpacks to more, or less, than its directory says."""
    head = build_header(np.dtype("u1"), (array_bytes,))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("a.npy", head + bytes(array_bytes))
    data = bytearray(path.read_bytes())
    struct.pack_into("<I", data, data.rindex(b"PK\x01\x02") + 24, declared)
    path.write_bytes(data)
    return path


def test_bombs(tmp_path: Path) -> None:
    path = bomb(tmp_path / "x.npz", 1 << 20, 2**32 - 2)
    with pytest.raises(FormatError, match=r"unpack to 4\.0 GiB, more than 1\.0 GiB"):
        hr.open(path)
    with pytest.raises(FormatError, match="cannot unpack to 4294967294"):
        hr.open(path, max_unpacked_bytes=1 << 33)
    with pytest.raises(FormatError, match="there are 5"):
        hr.open(bomb(tmp_path / "x.npz", 1 << 20, 5))
    np.savez_compressed(tmp_path / "y.npz", a=np.zeros(1 << 20, np.uint8))
    with pytest.raises(FormatError, match="max_unpacked_bytes"):
        hr.open(tmp_path / "y.npz", max_unpacked_bytes=1000)


def test_a_stream_longer_than_it_says(tmp_path: Path) -> None:
    """The header inside asks for what the directory says, and the stream goes on."""
    path = tmp_path / "x.npz"
    inside = build_header(np.dtype("u1"), (1000,)) + bytes(1000)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("a.npy", inside + bytes(50_000_000))
    data = bytearray(path.read_bytes())
    entry = data.rindex(b"PK\x01\x02")
    struct.pack_into("<I", data, entry + 24, len(inside))
    struct.pack_into("<I", data, entry + 16, zlib.crc32(inside))
    path.write_bytes(data)
    dataset = hr.open(path)
    with pytest.raises(FormatError, match="more than the 1128 bytes"):
        _ = dataset[0]


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"__headrace__": np.zeros(3)}, "is not bytes"),
        ({"__headrace__": np.frombuffer(b"{}", np.uint8)}, "description of its fields cannot be read"),
        ({"a": None}, "array of field 'a' is missing"),
        ({"a": np.zeros((2, 0))}, "array of field 'a' is missing"),
        ({"a": np.array(["x", "y"])}, "cannot be read as Int"),
        ({"b.offsets": np.zeros(0, np.int64)}, "'b' is not bytes"),
        ({"b.values": np.zeros(4)}, "'b' is not bytes"),
        ({"b.offsets": np.zeros(7, np.int64)}, "'b' has 6 values, 2 samples expected"),
    ],
)
def test_a_description_that_does_not_fit(arrays: dict[str, Any], message: str, tmp_path: Path) -> None:
    hr.write(tmp_path / "x.npz", [(1, b"x"), (2, b"yz")], fields={"a": hr.Int(), "b": hr.Bytes()})
    with np.load(tmp_path / "x.npz") as file:
        changed = {name: file[name] for name in file.files} | arrays
    np.savez(tmp_path / "x.npz", **{name: array for name, array in changed.items() if array is not None})
    with pytest.raises(FormatError, match=message):
        hr.open(tmp_path / "x.npz")


@pytest.mark.parametrize("offsets", [[0, 9, 3], [-1, 1, 3], [0, 2, 1], [2**62, 2**62, 3]])
def test_offsets_that_lie(offsets: list[int], tmp_path: Path) -> None:
    hr.write(tmp_path / "x.npz", [b"x", b"yz"], fields={"b": hr.Bytes()})
    with np.load(tmp_path / "x.npz") as file:
        changed = {name: file[name] for name in file.files} | {"b.offsets": np.array(offsets)}
    np.savez(tmp_path / "x.npz", **changed)
    dataset = hr.open(tmp_path / "x.npz")
    with pytest.raises(CorruptSampleError, match="its place is wrong"):
        _ = dataset[:]
    assert not dataset.verify().ok


def test_damage_in_a_stored_member_is_found(tmp_path: Path) -> None:
    data = bytearray((GOLDEN / "plain.npz").read_bytes())
    data[3000] ^= 1
    (tmp_path / "x.npz").write_bytes(data)
    report = hr.open(tmp_path / "x.npz").verify()
    assert [problem.field for problem in report.problems] == ["image"]
    assert "CRC-32" in report.problems[0].message


def test_a_file_that_is_cut_while_it_is_read(tmp_path: Path) -> None:
    path = save(tmp_path / "x.npy", np.ones((4, 1 << 16)))
    dataset = hr.open(path)
    with path.open("r+b") as file:
        file.truncate(4096)
    with pytest.raises(FormatError, match="became shorter"):
        _ = dataset[3]
    with pytest.raises(FormatError, match="became shorter"):
        dataset.check_file()


def test_closed(tmp_path: Path) -> None:
    with hr.open(GOLDEN / "plain.npz") as dataset:
        view = dataset.view("label")
    assert view[0] == TRUTH[0]["label"]
    with pytest.raises(ClosedError):
        _ = dataset[0]


@pytest.mark.parametrize("name", ["plain.npz", "packed.npz", "fortran.npy", "bigendian.npy", "raw.npy", "truth.npy"])
def test_damaged_golden_files(name: str, tmp_path: Path) -> None:
    data = (GOLDEN / name).read_bytes()
    rng = np.random.default_rng(len(data))
    for i in range(200):
        broken = bytearray(data)
        place = int(rng.integers(0, len(data)) if i % 2 else rng.integers(1, min(700, len(data))))
        place = len(data) - place if i % 4 == 2 else place
        if i % 5 == 0:
            del broken[place:]
        else:
            broken[place : place + 1] = bytes([int(rng.integers(0, 256))])
        (tmp_path / "x").write_bytes(broken)
        try:
            with NpyDataset(tmp_path / "x") as dataset:
                dataset.verify(decode=True, workers=1)
                _ = dataset[-1:]
        except HeadraceError:
            pass


def test_threads_unpack_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from headrace.formats.npy.contents import PackedContent

    calls = []
    unpack = PackedContent._unpack
    monkeypatch.setattr(PackedContent, "_unpack", lambda self: calls.append(1) or unpack(self))  # type: ignore[func-returns-value]
    dataset = hr.open(GOLDEN / "packed.npz")
    threads = [threading.Thread(target=lambda: dataset.read_values(np.arange(20), "image")) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(calls) == 1


def test_the_fingerprint_knows_the_data(tmp_path: Path) -> None:
    first = hr.open(save(tmp_path / "x.npy", np.arange(9))).fingerprint
    assert hr.open(tmp_path / "x.npy").fingerprint == first
    assert hr.open(save(tmp_path / "x.npy", np.arange(9) + 1)).fingerprint != first


def test_found_by_content(tmp_path: Path) -> None:
    (tmp_path / "array").write_bytes((GOLDEN / "raw.npy").read_bytes())
    (tmp_path / "arrays").write_bytes((GOLDEN / "plain.npz").read_bytes())
    assert len(hr.open(tmp_path / "array")) == len(hr.open(tmp_path / "arrays")) == 20
