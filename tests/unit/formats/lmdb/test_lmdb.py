"""LMDB files: read without the library, written with it; every number of a page is checked."""

from __future__ import annotations

import os
import pickle
import random
import struct
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headrace as hr
from headrace.errors import ClosedError, CorruptSampleError, FormatError, HeadraceError, MissingExtraError, WriteError
from headrace.formats.lmdb import LmdbDataset, LmdbWriter
from headrace.formats.lmdb.tree import read_environment, read_tree

lmdb = pytest.importorskip("lmdb")

GOLDEN = Path(__file__).parents[3] / "golden" / "formats"
PAGE = 4096
META = 16


def put(path: Path, pairs: dict[bytes, bytes], **options: Any) -> None:
    """Write pairs with the library."""
    name = options.pop("name", None)
    folder = options.pop("folder", False)
    with lmdb.open(str(path), subdir=folder, lock=False, map_size=64 << 20, max_dbs=4) as environment:
        database = environment.open_db(name, **options) if name or options else None
        with environment.begin(write=True, db=database) as transaction:
            for key, value in pairs.items():
                transaction.put(key, value)


def pairs_of(count: int) -> dict[bytes, bytes]:
    rng = random.Random(count)
    return {f"k{i:06d}".encode(): rng.randbytes(rng.choice([0, 3, 500, 2000, 9000])) for i in range(count)}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "x.lmdb"


# -- reading --------------------------------------------------------------------------------------------------


def test_the_golden_file_is_as_the_truth_says() -> None:
    before = sorted(os.listdir(GOLDEN))
    dataset = hr.open(GOLDEN / "table.lmdb")
    assert dict(dataset.schema) == {"image": hr.Image()}
    assert dataset.keys == [f"{i:06d}" for i in range(20)]
    for i, key in enumerate(dataset.keys):
        assert dataset.read_bytes([i], "image") == [(GOLDEN / "truth" / f"{key}.jpg").read_bytes()]
    assert dataset["000007"].image.shape == dataset[7].image.shape
    assert dataset.verify(decode=True).ok
    assert hr.open(GOLDEN / "table.lmdb", decode="bytes")[3].data.startswith(b"\xff\xd8")
    assert sorted(os.listdir(GOLDEN)) == before


@pytest.mark.parametrize("count", [0, 1, 2, 100, 5000])
@pytest.mark.parametrize("folder", [False, True])
def test_trees_of_every_depth(tmp_path: Path, count: int, folder: bool) -> None:
    path, pairs = tmp_path / ("x" if folder else "x.lmdb"), pairs_of(count)
    put(path, pairs, folder=folder)
    dataset = hr.open(path)
    assert isinstance(dataset, LmdbDataset)
    assert dataset.keys == [key.decode() for key in pairs]
    order = np.random.default_rng(0).permutation(count)
    values = list(pairs.values())
    assert dataset.read_bytes(order, "data") == [values[i] for i in order]
    assert dataset.verify().ok


def test_a_tree_that_was_changed_often(path: Path) -> None:
    pairs = pairs_of(3000)
    put(path, pairs)
    keys = list(pairs)
    random.Random(1).shuffle(keys)
    with lmdb.open(str(path), subdir=False, lock=False, map_size=64 << 20) as environment:
        for part in range(5):
            with environment.begin(write=True) as transaction:
                for key in keys[part * 300 : part * 300 + 250]:
                    transaction.delete(key)
                    del pairs[key]
    dataset = hr.open(path)
    assert dict(zip(dataset.keys or [], dataset.read_bytes(range(len(dataset)), "data"), strict=True)) == {
        key.decode(): value for key, value in pairs.items()
    }


def test_pages_of_another_size(path: Path) -> None:
    put(path, {})
    (path.parent / "small.lmdb").write_bytes(small_file())
    dataset = hr.open(path.parent / "small.lmdb")
    assert [(key, sample.data) for key, sample in zip(dataset.keys or [], dataset, strict=True)] == [("a", b"12345")]
    data = bytearray(path.read_bytes())
    data[40:44] = (16384).to_bytes(4, "little")
    path.write_bytes(data)
    with pytest.raises(FormatError, match=r"a meta page is missing at byte 16384"):
        hr.open(path)
    data[40:44] = (5000).to_bytes(4, "little")
    path.write_bytes(data)
    with pytest.raises(FormatError, match="its pages have 5000 bytes, and a page has a power of two"):
        hr.open(path)


def small_file() -> bytes:
    """A file with pages of 512 bytes, made by hand: one leaf with one key."""
    size = 512
    none = struct.pack("<IHHQQQQQ", size, 0, 0, 0, 0, 0, 0, (1 << 64) - 1)
    main = struct.pack("<IHHQQQQQ", 0, 0, 1, 0, 1, 0, 1, 2)
    pages = []
    for number in range(2):
        head = struct.pack("<QHHHH", number, 0, 8, 0, 0) + struct.pack("<IIQQ", 0xBEEFC0DE, 1, 0, 1 << 20)
        pages.append((head + none + (main if number else none) + struct.pack("<QQ", 2, number)).ljust(size, b"\0"))
    node = struct.pack("<HHHH", 5, 0, 0, 1) + b"a" + b"12345"
    at = size - len(node)
    pages.append((struct.pack("<QHHHH", 2, 0, 2, 18, at) + struct.pack("<H", at)).ljust(at, b"\0") + node)
    return b"".join(pages)


def test_keys_that_are_no_text(path: Path) -> None:
    put(path, {b"a\xff": b"1", "ü".encode(): b"2"})
    assert hr.open(path).keys == ["a\\xff", "ü"]
    other = path.with_name("y.lmdb")
    put(other, {struct.pack("<I", i): str(i).encode() for i in (300, 7)}, name=b"numbers", integerkey=True)
    assert hr.open(other, database="numbers").keys == ["7", "300"]


def test_notes_of_other_programs_are_left_out(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    put(path, {b"0": b"x", b"__len__": pickle.dumps(1), b"__keys__": pickle.dumps([b"0"])})
    dataset = hr.open(path)
    assert dataset.keys == ["0"]
    assert dataset.left_out == ["__keys__: it is no sample", "__len__: it is no sample"]
    assert "2 left out" in caplog.text


@pytest.mark.parametrize(
    ("decode", "data", "value"),
    [
        ("json", b'{"a": 1}', {"a": 1}),
        ("text", "ü".encode(), "ü"),
        ("msgpack", b"\x81\xa1a\x01", {"a": 1}),
        ("bytes", b"\x81", b"\x81"),
        (None, b"\x81", b"\x81"),
    ],
)
def test_what_values_are(path: Path, decode: Any, data: bytes, value: Any) -> None:
    put(path, {b"k": data})
    assert hr.open(path, decode=decode)[0].data == value
    assert hr.open(path, fields={"data": hr.Bytes()})[0].data == data


def test_wrong_options(path: Path) -> None:
    put(path, {b"k": b"v"})
    with pytest.raises(ValueError, match="allow_pickle"):
        hr.open(path, decode="pickle")
    with pytest.raises(ValueError, match="is a number, and the values of an LMDB are bytes"):
        hr.open(path, fields={"data": hr.Int()})
    with pytest.raises(ValueError, match="it has one without a name; leave database out"):
        hr.open(path, database="x")


def test_several_databases(path: Path) -> None:
    put(path, {b"k": b"1"}, name=b"one")
    put(path, {b"k": b"2", b"l": b"3"}, name=b"two")
    with pytest.raises(FormatError, match=r"it has the databases 'one', 'two'\. Choose one: database='one'"):
        hr.open(path)
    assert [sample.data for sample in hr.open(path, database="two")] == [b"2", b"3"]
    with pytest.raises(ValueError, match="no database 'three'; its databases are 'one', 'two'"):
        hr.open(path, database="three")


def test_several_values_for_a_key(path: Path) -> None:
    put(path, {b"k": b"1"}, name=b"many", dupsort=True)
    with pytest.raises(FormatError, match="may have several values"):
        hr.open(path, database="many")


def test_threads_pickles_forks_and_closing(path: Path) -> None:
    pairs = pairs_of(300)
    put(path, pairs)
    dataset = hr.open(path)
    expected = list(pairs.values())

    def read(_: int) -> list[bytes]:
        return [sample.data for sample in dataset]

    with ThreadPoolExecutor(8) as pool:
        assert all(found == expected for found in pool.map(read, range(16)))
    again = pickle.loads(pickle.dumps(dataset))
    assert [sample.data for sample in again] == expected
    assert again.fingerprint == dataset.fingerprint
    child = os.fork()
    if child == 0:
        os._exit(0 if read(0) == expected else 1)
    assert os.waitpid(child, 0)[1] == 0
    dataset.close()
    with pytest.raises(ClosedError):
        _ = dataset[0]


def test_windows_of_jpegs(path: Path) -> None:
    path.write_bytes((GOLDEN / "table.lmdb").read_bytes())
    hr.index(path)
    spans = hr.open(path).image_spans(np.arange(20), "image")
    assert spans.tile_indices is not None
    assert sum(spans.tile_indices[2] > 0) == 19  # one of them is progressive
    assert hr.open(path).verify(decode=True).ok
    loader = hr.Loader(hr.open(path), batch_size=5, pipelines={"image": [hr.ops.CenterCrop(16)]})
    assert len(list(loader)) == 4


def test_an_annex_has_checksums_classes_and_metadata(path: Path) -> None:
    put(path, {b"a": b"one", b"b": bytes(9000), b"__len__": b"2"})
    hr.index(path, metadata={"x": 1})
    dataset: Any = hr.open(path)
    assert (list(dataset.keys), dataset.metadata, dataset.has_checksums) == (["a", "b"], {"x": 1}, True)
    assert dataset.left_out == ["__len__: it is no sample"]
    assert dataset.verify().checksums_checked == 2
    at = int(dataset.indexed.index.offsets[1, 0])
    with path.open("r+b") as file:
        file.seek(at + 5000)
        file.write(b"X")
    with pytest.raises(CorruptSampleError, match="sample 1, field 'data'"):
        _ = dataset[1]
    assert dataset.verify().bad_samples == (1,)


def test_an_annex_is_not_of_a_named_database(path: Path) -> None:
    put(path, {b"k": b"1"}, name=b"one")
    put(path, {b"k": b"2"}, name=b"two")
    with pytest.raises(FormatError, match="it has the databases"):
        hr.index(path)


def test_opening_writes_nothing(tmp_path: Path) -> None:
    put(tmp_path / "x", {f"{i:03d}".encode(): bytes(200_000) for i in range(100)}, folder=True)
    before = sorted(os.listdir(tmp_path / "x"))
    assert len(hr.open(tmp_path / "x")) == 100
    assert sorted(os.listdir(tmp_path / "x")) == before


def test_reading_needs_no_library(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "lmdb", None)
    assert len(hr.open(GOLDEN / "table.lmdb")) == 20
    with pytest.raises(MissingExtraError, match=r"headrace\[lmdb\]"):
        hr.write(tmp_path / "x.lmdb", [b"1"], fields={"data": hr.Bytes()})


# -- damage ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, 10, 200, 4096, 5000, 60_000])
def test_a_file_that_was_cut_short(path: Path, size: int) -> None:
    path.write_bytes((GOLDEN / "table.lmdb").read_bytes()[:size])
    with pytest.raises(FormatError, match=r"x\.lmdb: .*copy it again"):
        hr.open(path)


LEAF, ROOT, OVERFLOW = 4, 5, 3


@pytest.mark.parametrize(
    ("offset", "data", "message"),
    [
        (META, b"\0\0\0\0", "the magic number is 0x00000000, expected 0xbeefc0de"),
        (META + 4, b"\2", "version 2 of LMDB's layout"),
        (10, b"\0", "not marked as a meta page"),
        (PAGE + 40, b"\0\x20", "one meta page says pages of 4096 bytes, the other says 8192"),
        (PAGE + 40 + 48 + 6, b"\xff", "the tree has 255 levels"),
        (PAGE + 40 + 48 + 6, b"\0", "has a root, a depth or entries"),
        (PAGE + 40 + 48 + 6, b"\1", "no leaf page that could be right"),
        (PAGE + 40 + 48 + 6, b"\3", "no branch page that could be right"),
        (PAGE + 40 + 48 + 32, b"\7", "the tree has 20 keys, its record says 7"),
        (PAGE + 40 + 48 + 40, b"\xff", "a page is named that is not in use"),
        (PAGE + 40 + 48 + 40, b"\0", "a page is reached twice"),
        (PAGE * ROOT + 12, b"\xff\xff", "no branch page that could be right"),
        (PAGE * LEAF + 12, b"\x10\0", "no leaf page that could be right"),
        (PAGE * LEAF + 16, b"\xff\xff", "a node lies outside of its page"),
        (PAGE * LEAF, b"\7", "no leaf page that could be right"),
        (PAGE * 3 + 10, b"\2", "the pages of a value are not marked so"),
        (PAGE * 3 + 12, b"\xff\xff", "lie outside of the file"),
    ],
)
def test_numbers_that_lie(path: Path, offset: int, data: bytes, message: str) -> None:
    whole = bytearray((GOLDEN / "table.lmdb").read_bytes())
    whole[offset : offset + len(data)] = data
    path.write_bytes(whole)
    with pytest.raises(FormatError, match=message):
        hr.open(path)


def test_a_tree_that_leads_in_circles(path: Path) -> None:
    whole = bytearray((GOLDEN / "table.lmdb").read_bytes())
    first = PAGE * ROOT + struct.unpack_from("<H", whole, PAGE * ROOT + 16)[0]
    whole[first : first + 2] = ROOT.to_bytes(2, "little")
    path.write_bytes(whole)
    with pytest.raises(FormatError, match="a page is reached twice"):
        hr.open(path)


def test_damage_crashes_nothing(path: Path) -> None:
    put(path.with_name("small.lmdb"), pairs_of(60))
    for source in (GOLDEN / "table.lmdb", path.with_name("small.lmdb")):
        whole = source.read_bytes()
        for seed in range(200):
            rng, data = random.Random(seed), bytearray(whole)
            for _ in range(rng.choice([1, 5])):
                at = rng.randrange(min(len(data), 30_000))
                data[at : at + 8] = rng.choice([b"\xff" * 8, bytes(8), rng.randbytes(8), bytes([data[at] ^ 1])])
            mapped = np.frombuffer(
                bytes(data[: rng.choice([len(data), len(data), rng.randrange(len(data))])]), np.uint8
            )
            try:
                environment = read_environment("x", mapped)
                tree = read_tree(environment, environment.main)
            except HeadraceError:
                continue
            ends = tree.places.offsets + tree.places.sizes
            assert not len(ends) or int(ends.max()) <= len(mapped)


# -- writing --------------------------------------------------------------------------------------------------

SAMPLES: list[tuple[hr.types.Field, str, list[Any]]] = [
    (hr.Bytes(), "bytes", [b"", b"1", bytes(10_000)]),
    (hr.Text(), "text", ["", "ü" * 3000]),
    (hr.Json(), "json", [{"a": [1, None]}, "x"]),
    (hr.NDArray("<f4", (2, 3)), "npy", [np.arange(6, dtype="<f4").reshape(2, 3)] * 3),
]


@pytest.mark.parametrize(("field", "decode", "values"), SAMPLES, ids=lambda one: getattr(one, "kind", ""))
def test_what_is_written_comes_back(path: Path, field: Any, decode: Any, values: list[Any]) -> None:
    hr.write(path, [(value,) for value in values], fields={"x": field})
    dataset = hr.open(path, decode=decode)
    assert dataset.keys == [f"{i:08d}" for i in range(len(values))]
    for found, given in zip(dataset, values, strict=True):
        assert np.array_equal(found.data, given) if isinstance(given, np.ndarray) else found.data == given
    assert os.listdir(path.parent) == ["x.lmdb"]
    with lmdb.open(str(path), subdir=False, lock=False, readonly=True) as environment:
        assert environment.stat()["entries"] == len(values)
        assert path.stat().st_size == (environment.info()["last_pgno"] + 1) * environment.stat()["psize"]


def test_pictures_pass_untouched(path: Path) -> None:
    source = hr.open(GOLDEN / "table.lmdb")
    hr.write(path, source)
    copy = hr.open(path)
    assert (copy.keys, dict(copy.schema)) == (source.keys, dict(source.schema))
    assert copy.read_bytes(range(20), "image") == source.read_bytes(range(20), "image")


def test_no_samples(path: Path) -> None:
    hr.write(path, [], fields={"data": hr.Bytes()})
    assert len(hr.open(path)) == 0


def test_the_map_grows(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from headrace.formats.lmdb import writer

    monkeypatch.setattr(writer, "_FIRST_MAP", 1 << 16)
    values = [bytes([i]) * 30_000 for i in range(100)]
    hr.write(path, values, fields={"data": hr.Bytes()}, names=[f"{99 - i:02d}" for i in range(100)])
    dataset = hr.open(path)
    assert dataset.keys == [f"{i:02d}" for i in range(100)]  # in the order of the keys
    assert [sample.data for sample in dataset] == values[::-1]


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["a", "a"], "two samples are called 'a'"),
        (["a", ""], "its name has 0 bytes, and a key of an LMDB has 1 to 511"),
        (["a", "x" * 512], "its name has 512 bytes"),
        (["a", "__len__"], "names such as '__len__' are taken for notes"),
    ],
)
def test_names_that_cannot_be_keys(path: Path, names: list[str], message: str) -> None:
    with pytest.raises(WriteError, match=message):
        hr.write(path, [b"1", b"2"], fields={"data": hr.Bytes()}, names=names)
    assert not list(path.parent.iterdir())


def test_what_an_lmdb_cannot_hold(path: Path) -> None:
    with pytest.raises(ValueError, match="one value for each key, and there are the fields a, b"):
        hr.write(path, [(1, 2)], fields={"a": hr.Bytes(), "b": hr.Bytes()})
    with pytest.raises(ValueError, match="is a number"):
        hr.write(path, [1], fields={"a": hr.Int()})
    unfinished = LmdbWriter(path, {"a": hr.Bytes()})
    unfinished.append(b"x", name="k")
    unfinished.abort()
    assert not list(path.parent.iterdir())
