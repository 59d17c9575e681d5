"""MessagePack streams: what is read and written, and what is refused."""

from __future__ import annotations

import json
import multiprocessing
import os
import pickle
import random
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headrace as hr
from headrace.codecs import jpeg
from headrace.errors import CorruptSampleError, FormatError, HeadraceError, WriteError
from headrace.fields import Bytes, Float, Image, Int, Json, NDArray, Text
from headrace.formats.decodes import Coded
from headrace.formats.msgpack import MsgpackDataset
from headrace.types import Dataset, missing_members

msgpack = pytest.importorskip("msgpack")
GOLDEN = Path(__file__).parents[2] / "golden" / "formats"
FIELDS = {
    "n": Int(),
    "x": Float(),
    "text": Text(),
    "json": Json(),
    "data": Bytes(),
    "array": NDArray("float32", (2, 2)),
    "image": Image(),
}


def samples(count: int) -> list[tuple[Any, ...]]:
    rng = np.random.default_rng(1)
    return [
        (
            i - 3,
            i / 7,
            "π" * i,
            {"a": [i, None, True], "b": "x"},
            bytes(range(i)),
            rng.random((2, 2)).astype(np.float32),
            jpeg.encode(rng.integers(0, 255, (40, 50, 3)).astype(np.uint8)),
        )
        for i in range(count)
    ]


def make(path: Path, values: list[Any]) -> Path:
    path.write_bytes(b"".join(map(msgpack.packb, values)))
    return path


def test_golden() -> None:
    dataset = hr.open(GOLDEN / "stream.msgpack")
    assert not missing_members(dataset, Dataset)
    assert [field.kind for field in dataset.schema.values()] == ["image", "int", "float", "text", "json", "json"]
    for i, text in enumerate(np.load(GOLDEN / "truth.npy")):
        truth, sample = json.loads(text), dataset[i]
        assert all(sample[name] == truth[name] for name in ("label", "score", "caption", "meta", "box"))
        assert dataset.read_bytes([i], "image") == [(GOLDEN / "truth" / f"{i:06d}.jpg").read_bytes()]
    spans = dataset.image_spans(np.arange(20), "image")
    assert spans.base is dataset.indexed.file.mapped  # nothing was copied
    boxes = hr.open(GOLDEN / "stream.msgpack", fields={"box": NDArray("float64", (4,))})
    assert boxes.read_values(np.arange(20), "box").shape == (20, 4)


def test_round_trip(tmp_path: Path) -> None:
    path, rows = tmp_path / "x.msgpack", samples(12)
    names = [f"n{i}" for i in range(12)]
    hr.write(path, rows, fields=FIELDS, names=names, class_names={"n": ["a", "b"]}, metadata={"by": "me"})
    dataset = hr.open(path)
    assert dict(dataset.schema) == FIELDS
    assert (dataset.class_names, dataset.metadata, list(dataset.keys or ())) == ({"n": ["a", "b"]}, {"by": "me"}, names)
    for row, sample in zip(rows, dataset, strict=True):
        assert (sample.n, sample.x, sample.text, sample.json, sample.data) == row[:5]
        assert np.array_equal(sample.array, row[5])
    assert dataset.read_bytes(range(12), "image") == [row[6] for row in rows]
    assert dataset["n5"].n == 2
    spans = dataset.image_spans(np.array([3, 1]), "image")
    assert spans.tile_indices is not None
    report = dataset.verify(decode=True)
    assert (report.ok, report.checksums_checked, report.images_decoded) == (True, 12 * 7, 12)
    ragged = dataset.read_ragged(np.array([3, 2]), "data")
    assert (ragged.values.tobytes(), ragged.offsets.tolist()) == (b"\0\1\2\0\1", [0, 3, 5])
    assert dataset.rows(np.array([3]))[0]["n"] == 0


def test_without_an_annex_fields_are_inferred(tmp_path: Path) -> None:
    path = tmp_path / "x.mpk"
    hr.write(path, samples(5), fields=FIELDS)
    hr.write(path, samples(5), fields=FIELDS, annex=False, force=True)
    assert os.listdir(tmp_path) == ["x.mpk"]  # the annex of the older file has gone
    kinds = [field.kind for field in hr.open(path).schema.values()]
    assert kinds == ["int", "float", "text", "json", "bytes", "bytes", "image"]
    arrays = hr.open(path, decode={"array": "npy"})
    assert arrays[1].array.shape == (2, 2)
    assert hr.open(path, fields={"array": FIELDS["array"]})[1].array.dtype == np.float32
    with pytest.raises(ValueError, match="names are kept in the annex"):
        hr.write(path, samples(2), fields=FIELDS, annex=False, names=["a", "b"], force=True)
    with pytest.raises(ValueError, match="no field zzz"):
        hr.open(path, fields={"zzz": Int()})


@pytest.mark.parametrize(
    ("values", "field", "read"),
    [
        ([1, -5, 2**40], Int(), [1, -5, 2**40]),
        ([True, False], Int(), [1, 0]),
        ([1, 2.5], Float(), [1.0, 2.5]),
        (["a", ""], Text(), ["a", ""]),
        ([b"a", b""], Bytes(), [b"a", b""]),
        ([None, None], Json(), [None, None]),
        ([2**64 - 1, 3], Json(), [2**64 - 1, 3]),
        (["a", 1, None, [1]], Json(), ["a", 1, None, [1]]),
        ([{1: 2}, {}], Json(), [{1: 2}, {}]),
        ([[b"a"], 5], Coded("msgpack"), [[b"a"], 5]),
        ([msgpack.Timestamp(0, 0), msgpack.Timestamp(-1, 5)], Text(), None),
    ],
)
def test_kinds_of_values(tmp_path: Path, values: list[Any], field: Any, read: list[Any] | None) -> None:
    dataset = hr.open(make(tmp_path / "x.msgpack", values))
    assert dict(dataset.schema) == {"data": field}
    read = ["1970-01-01T00:00:00Z", "1969-12-31T23:59:59.000000005Z"] if read is None else read
    assert [sample.data for sample in dataset] == read
    maps = hr.open(make(tmp_path / "y.msgpack", [{"k": value, "i": 0} for value in values]))
    assert [sample.k for sample in maps] == read
    assert maps.verify(decode=True).ok


def test_keys_in_any_order(tmp_path: Path) -> None:
    dataset = hr.open(make(tmp_path / "x.msgpack", [{"a": 1, "b": "x"}, {"b": "y", "a": 2}]))
    assert list(dataset.schema) == ["a", "b"]
    assert [(s.a, s.b) for s in dataset] == [(1, "x"), (2, "y")]


@pytest.mark.parametrize(
    ("stream", "message"),
    [
        (b"\x81\xa1a\x01\x81\xa1b\x01", r"sample 1: it has the key 'b'.*at byte 5"),
        (b"\x82\xa1a\x01\xa1b\x01\x81\xa1a\x01", r"sample 1: it lacks the key 'b'"),
        (b"\x82\xa1a\x01\xa1a\x01", r"sample 0: it has the key 'a' twice"),
        (b"\x81\xa1a\x01\x07", r"sample 1: it is no map"),
        (b"\x81\xa1\xff\x01", "key that is not UTF-8"),
        (b"\x01\xc1", r"sample 1: .*0xc1.*at byte 1"),
        (b"\xc7\x01\x05x", "extension type"),
        (b"\xc6\xff\xff\xff\xff", r"ends in the middle.*at byte 0.*interrupted"),
        (b"\xdd\xff\xff\xff\xff\x01", "ends in the middle"),
        (b"\x91" * 5000 + b"\x01", r"more than 512 levels.*at byte 513"),
        (b"\x01\xc4\x01x", r"sample 1, field 'data': bytes, and sample 0 has integer there.*at byte 1"),
        (b"\x81\xa4a//b\x01", "no field can be called that"),
    ],
)
def test_refused(tmp_path: Path, stream: bytes, message: str) -> None:
    (tmp_path / "x.msgpack").write_bytes(stream)
    with pytest.raises(FormatError, match=message):
        hr.open(tmp_path / "x.msgpack")


@pytest.mark.parametrize(
    ("stream", "fix"),
    [
        (b"\x81\xa1a\x01\x81\xa1b\x01", "Every sample must be a map with the same keys"),
        (b"\x81\xa1\xff\x01", "Write the dataset again with such keys"),
        (b"\xc7\x01\x05x", "maps from texts to numbers, texts, bytes, lists and maps"),
        (b"\x91" * 5000 + b"\x01", "maps from texts to numbers, texts, bytes, lists and maps"),
        (b"\xc6\xff\xff\xff\xff", "write the dataset again"),
        (b"\x01\xc4\x01x", "values of one kind"),
    ],
)
def test_an_error_says_what_to_do(tmp_path: Path, stream: bytes, fix: str) -> None:
    (tmp_path / "x.msgpack").write_bytes(stream)
    with pytest.raises(FormatError) as caught:
        hr.open(tmp_path / "x.msgpack")
    assert fix in caught.value.fix


def test_damaged_values(tmp_path: Path) -> None:
    (tmp_path / "x.msgpack").write_bytes(b"\xa1a\xa1\xff")
    dataset = hr.open(tmp_path / "x.msgpack")
    assert dataset[0].data == "a"
    with pytest.raises(CorruptSampleError, match=r"sample 1, field 'data', byte 3: .*Restore the file, or open it"):
        _ = dataset[1]
    numbers = hr.open(make(tmp_path / "y.msgpack", [[1], [1, 2]]), fields={"data": NDArray("uint8", (1,))})
    assert numbers[0].data.tolist() == [1]
    with pytest.raises(CorruptSampleError, match=r"sample 1.*expected, found int64 \(2,\)"):
        _ = numbers[1]
    with pytest.raises(CorruptSampleError, match="a whole number was expected"):
        _ = hr.open(tmp_path / "y.msgpack", fields={"data": Int()})[0]


def test_empty(tmp_path: Path) -> None:
    (tmp_path / "x.msgpack").touch()
    assert len(hr.open(tmp_path / "x.msgpack")) == 0
    hr.write(tmp_path / "y.msgpack", [], fields=FIELDS)
    dataset = hr.open(tmp_path / "y.msgpack")
    assert (len(dataset), dict(dataset.schema)) == (0, FIELDS)
    assert len(dataset.read_values(np.empty(0, np.int64), "n")) == 0


def test_writer_refuses(tmp_path: Path) -> None:
    path = tmp_path / "x.msgpack"
    with pytest.raises(WriteError, match="sample 1, field 'n'"):
        hr.write(path, [(1,), ("x",)], fields={"n": Int()})
    with pytest.raises(WriteError, match="sample 0"):
        hr.write(path, [(2**70,)], fields={"n": Json()})
    with pytest.raises(ValueError, match="kind coded"):
        hr.write(path, [(1,)], fields={"n": Coded("msgpack")})
    with pytest.raises(ValueError, match="do not pass annex=False"):
        hr.write(path, [(1,)], fields={"n": Int()}, annex=False, metadata=1)
    with pytest.raises(ValueError, match="class_names names m"):
        hr.write(path, [(1,)], fields={"n": Int()}, class_names={"m": []})
    assert os.listdir(tmp_path) == []


def test_an_annex_that_lies(tmp_path: Path) -> None:
    path = tmp_path / "x.msgpack"
    hr.write(path, samples(3), fields=FIELDS)
    dataset = MsgpackDataset(path, fields={"n": Text(), "text": Int(), "json": Int(), "x": Image()})
    for name in dataset.schema:
        try:
            dataset.read_values(np.arange(3), name)
        except HeadraceError:
            continue


def _third(dataset: Any) -> Any:
    return dataset[3].n


def test_other_processes_and_threads(tmp_path: Path) -> None:
    hr.write(tmp_path / "x.msgpack", samples(8), fields=FIELDS)
    dataset = hr.open(tmp_path / "x.msgpack")
    assert pickle.loads(pickle.dumps(dataset))[3].n == 0
    with multiprocessing.get_context("fork").Pool(1) as pool:
        assert pool.apply(_third, (dataset,)) == 0
    with ThreadPoolExecutor(4) as threads:
        assert [s.n for s in threads.map(lambda i: dataset[i % 8], range(64))] == [i % 8 - 3 for i in range(64)]


def test_mutations(tmp_path: Path) -> None:
    whole, rng = (GOLDEN / "stream.msgpack").read_bytes(), random.Random(5)
    path = tmp_path / "x.msgpack"
    for _ in range(200):
        data = bytearray(whole)
        for _ in range(rng.randint(1, 3)):
            data[rng.randrange(len(data))] = rng.choice((0, 0xC1, 0xDD, 0xFF, rng.randrange(256)))
        path.write_bytes(data[: rng.randrange(len(data))] if rng.random() < 0.3 else data)
        try:
            dataset = hr.open(path)
            dataset.verify(decode=True)
            for i in range(len(dataset)):
                _ = dataset[i]
        except HeadraceError:
            pass


def test_damaged_annexes_are_noticed_or_harmless(tmp_path: Path) -> None:
    hr.write(tmp_path / "x.msgpack", samples(6), fields=FIELDS)
    annex, rng = tmp_path / "x.msgpack.annex", random.Random(1)
    whole = annex.read_bytes()
    for _ in range(60):
        data = bytearray(whole)
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        annex.write_bytes(data)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            try:
                assert [s.n for s in hr.open(tmp_path / "x.msgpack")] == [i - 3 for i in range(6)]
            except HeadraceError:
                continue
