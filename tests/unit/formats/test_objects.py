"""Formats over objects of a store: the same samples as of a local file, and no byte that was not asked for."""

from __future__ import annotations

import gzip
import os
import pickle
import shutil
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.helpers import image_file
from tests.patchy_file import PatchyStore
from tests.range_server import RangeServer, serve_ranges

import headrace as hr
from headrace import ops
from headrace.errors import AnnexError, CorruptSampleError, FormatError
from headrace.formats.beton import FORMAT as BETON
from headrace.formats.ffr import FORMAT as FFR
from headrace.formats.msgpack import FORMAT as MSGPACK
from headrace.formats.npy import columns
from headrace.formats.recordio import FORMAT as RECORDIO
from headrace.formats.spans import span_file, spooled
from headrace.formats.tar import FORMAT as TAR
from headrace.formats.tfrecord import FORMAT as TFRECORD
from headrace.formats.zip import FORMAT as ZIP
from headrace.storage import RemotePath, StorageOptions

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FORMATS = {
    "x.beton": BETON,
    "x.ffr": FFR,
    "x.msgpack": MSGPACK,
    "x.rec": RECORDIO,
    "x.tar": TAR,
    "x.tfrecord": TFRECORD,
    "x.zip": ZIP,
}
COUNT = 60


def noise(seed: int) -> bytes:
    pixels = np.random.default_rng(seed).integers(0, 256, (160, 200, 3), np.uint8)
    return image_file(pixels, "JPEG", quality=90, subsampling=0)


PICTURES = [noise(i) for i in range(COUNT)]


def fields_of(name: str) -> dict[str, Any]:
    image = {"image": hr.Image()}
    if name == "x.ffr":
        return image
    if name == "x.rec":
        return {**image, "label": hr.Int(), "id": hr.Int()}
    if name in ("x.tar", "x.zip"):
        return {"jpg": hr.Image(), "cls": hr.Int(), "txt": hr.Text()}
    more = {"box": hr.NDArray("<f4", (4,))} if name == "x.beton" else {}
    return {**image, "label": hr.Int(), "text": hr.Text(), **more}


def samples_of(name: str) -> list[tuple[Any, ...]]:
    columns: dict[str, Any] = {
        "image": PICTURES,
        "jpg": PICTURES,
        "label": list(range(COUNT)),
        "id": list(range(COUNT)),
        "cls": list(range(COUNT)),
        "text": [f"text {i}" * i for i in range(COUNT)],
        "txt": [f"text {i}" * i for i in range(COUNT)],
        "box": [np.arange(4, dtype="<f4") + i for i in range(COUNT)],
    }
    return list(zip(*(columns[field] for field in fields_of(name)), strict=True))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root: Path = tmp_path_factory.mktemp("objects")
    for name in FORMATS:
        hr.write(root / name, samples_of(name), fields=fields_of(name))
    hr.index(root / "x.ffr")
    return root


@pytest.fixture
def store(folder: Path, monkeypatch: pytest.MonkeyPatch) -> PatchyStore:
    return PatchyStore(folder).install(monkeypatch)


@pytest.fixture
def bare(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PatchyStore:
    """The same files without annexes beside them."""
    for name in (*FORMATS, "x.idx"):
        shutil.copy(folder / name, tmp_path / name)
    return PatchyStore(tmp_path).install(monkeypatch)


def options_of(name: str) -> dict[str, Any]:
    return {"decode": "image"} if name == "x.ffr" else {}


def open_here(store: PatchyStore, name: str, **options: Any) -> Any:
    return FORMATS[name].open(store.folder / name, **(options_of(name) | options))


def open_there(store: PatchyStore, name: str, **options: Any) -> Any:
    return FORMATS[name].open(store.url(name), **(options_of(name) | options))


def assert_same(one: Any, other: Any) -> None:
    assert len(one) == len(other)
    for a, b in zip(one, other, strict=True):
        assert a.keys() == b.keys()
        for name in a.keys():  # noqa: SIM118  # iterating gives values
            assert np.array_equal(a[name], b[name]), name


def batches(dataset: Any, name: str, **options: Any) -> list[Any]:
    picture = next(iter(fields_of(name)))
    steps = {picture: [ops.RandomResizedCrop(32), ops.RandomHorizontalFlip()]}
    loader = hr.Loader(dataset, 16, pipelines=steps, order="random", seed=3, **options)
    return [[np.array(value) if not isinstance(value, list) else value for value in batch] for batch in loader]


def assert_same_batches(one: list[Any], other: list[Any]) -> None:
    assert len(one) == len(other) > 0
    for batch, same in zip(one, other, strict=True):
        for value, expected in zip(batch, same, strict=True):
            assert np.array_equal(value, expected)


@pytest.mark.parametrize("name", FORMATS)
def test_samples(store: PatchyStore, name: str) -> None:
    here, there = open_here(store, name), open_there(store, name)
    assert (there.is_local, here.is_local) == (False, True)
    assert there.path == store.url(name)
    assert there.fingerprint == here.fingerprint
    assert there.schema == here.schema
    assert there.keys == here.keys or list(there.keys) == list(here.keys)
    assert_same(there[[5, 0, 59, 5]], here[[5, 0, 59, 5]])
    assert_same(list(there), list(here))
    assert there.has_checksums == here.has_checksums
    for field in here.schema:
        if here.schema[field].has_payload and field not in ("label", "id"):
            assert there.read_bytes([7, 3], field) == here.read_bytes([7, 3], field)
            assert there.read_ragged(np.array([7, 3]), field).values.tobytes() == b"".join(
                here.read_bytes([7, 3], field)
            )
    assert there.rows(np.arange(9)) == here.rows(np.arange(9))
    assert there.jpegs_indexed == here.jpegs_indexed == COUNT
    there.close()


@pytest.mark.parametrize("name", FORMATS)
def test_one_sample_is_a_small_part(store: PatchyStore, name: str) -> None:
    size = os.path.getsize(store.folder / name)
    there = open_there(store, name)
    _ = there[31]
    assert store.brought_bytes < size / 4
    store.reset()
    _ = there[17]
    assert store.brought_bytes < size / 30


@pytest.mark.parametrize("name", FORMATS)
def test_batches(store: PatchyStore, name: str) -> None:
    expected = batches(open_here(store, name), name)
    assert_same_batches(batches(open_there(store, name), name), expected)


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("decode", [False, True])
def test_verify(store: PatchyStore, name: str, decode: bool) -> None:
    here = open_here(store, name).verify(decode=decode)
    there = open_there(store, name).verify(decode=decode)
    assert here.ok
    assert there.ok, there.problems
    assert there.checksums_checked == here.checksums_checked
    assert there.size_bytes == here.size_bytes


@pytest.mark.parametrize("name", FORMATS)
def test_verify_finds_damage(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    for found in folder.iterdir():
        if found.name.startswith(("x.idx", name)):
            shutil.copy(found, tmp_path / found.name)
    data = bytearray((tmp_path / name).read_bytes())
    at = data.index(PICTURES[40]) + 20_000  # not in a block of the fingerprint
    data[at] ^= 1
    (tmp_path / name).write_bytes(data)
    store = PatchyStore(tmp_path).install(monkeypatch)
    report = open_there(store, name).verify()
    assert report.bad_samples == open_here(store, name).verify().bad_samples == (40,)
    with pytest.raises(CorruptSampleError):
        _ = open_there(store, name)[40]


@pytest.mark.parametrize("name", FORMATS)
def test_pickling_keeps_the_store(store: PatchyStore, name: str) -> None:
    path = RemotePath(store.url(name), StorageOptions(store={"region": "somewhere"}))
    there = FORMATS[name].open(path, **options_of(name))
    again = pickle.loads(pickle.dumps(there))
    assert isinstance(again.path, RemotePath)
    assert again.path.storage == path.storage
    assert_same(again[[3, 9]], there[[3, 9]])
    unchecked = there.with_checksums(False)
    assert isinstance(unchecked.path, RemotePath)
    assert_same(unchecked[[3]], there[[3]])


@pytest.mark.parametrize("name", FORMATS)
def test_what_is_announced_is_what_is_read(store: PatchyStore, name: str) -> None:
    there = open_there(store, name)
    picture = next(iter(there.schema))
    indices = np.array([9, 50, 2, 33], np.int64)
    _ = there.image_spans(indices[:1], picture)  # what is opened late
    announced = there.announce(indices, tuple(there.schema))
    assert announced is not None
    assert announced.size_bytes >= sum(len(PICTURES[i]) for i in indices)
    announced.wait()
    store.reset()
    spans = there.image_spans(indices, picture)
    assert spans.tile_indices is not None
    for field in there.schema:
        there.read_values(indices, field)
    assert store.regions > 0
    assert store.unannounced == 0
    announced.close()
    announced.close()
    assert store.open_announcements == 0
    assert open_here(store, name).announce(indices, (picture,)) is None
    there.close()


@pytest.mark.parametrize("name", [name for name in FORMATS if name not in ("x.beton", "x.ffr")])
@pytest.mark.parametrize("is_large", [False, True])
def test_without_an_annex(bare: PatchyStore, monkeypatch: pytest.MonkeyPatch, name: str, is_large: bool) -> None:
    if is_large:  # a large object goes through a temporary file
        monkeypatch.setattr(span_file, "_HELD_BYTES", 1000)
        monkeypatch.setattr(spooled, "_PIECE_BYTES", 100_000)
    there, here = open_there(bare, name), open_here(bare, name, annex=False)
    assert there.is_local == is_large
    assert_same(there[[5, 0, 59]], here[[5, 0, 59]])
    assert there.verify(decode=True).ok
    assert_same_batches(batches(there, name), batches(here, name))
    size = os.path.getsize(bare.folder / name)
    assert not is_large or bare.held_bytes < 10_000
    assert not is_large or bare.region_bytes < 1.5 * size
    assert bare.open_announcements == 0
    assert sorted(os.listdir(bare.folder)) == sorted((*FORMATS, "x.idx"))  # nothing was kept beside it


def test_an_annex_of_another_file_is_not_used(bare: PatchyStore, folder: Path) -> None:
    shutil.copy(folder / "x.zip.annex", bare.folder / "x.tar.annex")
    with pytest.warns(RuntimeWarning, match="belongs to another dataset"):
        there = open_there(bare, "x.tar")
    assert len(there) == COUNT


def test_a_beton_without_an_annex(bare: PatchyStore) -> None:
    there = open_there(bare, "x.beton", annex=False)
    assert not there.has_checksums
    assert_same(there[:5], open_here(bare, "x.beton", annex=False)[:5])
    assert there.page_numbers().tolist() == open_here(bare, "x.beton").page_numbers().tolist()


def test_a_beton_with_an_annex_beside_it(bare: PatchyStore, tmp_path: Path) -> None:
    plain = tmp_path / "y.beton"
    hr.write(plain, samples_of("x.beton"), fields=fields_of("x.beton"), annex=False)
    hr.index(plain)
    there = BETON.open(bare.url("y.beton"))
    assert there.annex is not None
    assert there.annex.path == "s3://patchy/y.beton.annex"
    assert_same(there[:5], BETON.open(plain)[:5])
    assert there.verify(decode=True).ok
    plain.with_name("y.beton.annex").write_bytes(b"something else" * 9)
    with pytest.raises(AnnexError, match="not an annex"):
        BETON.open(bare.url("y.beton"))


def test_views_of_a_beton_are_copies(store: PatchyStore) -> None:
    here, there = open_here(store, "x.beton"), open_there(store, "x.beton")
    view = there.view(7, "box")
    assert view.tolist() == here.view(7, "box").tolist()
    assert not view.flags.writeable
    assert there.mapped.tobytes() == here.mapped.tobytes()


def test_summaries(store: PatchyStore) -> None:
    for name in ("x.beton", "x.ffr"):
        summarize: Any = FORMATS[name].summarize
        store.reset()
        there, here = summarize(store.url(name)), summarize(store.folder / name)
        assert dict(there.values) | {"path": ""} == dict(here.values) | {"path": ""}
        assert store.brought_bytes < os.path.getsize(store.folder / name) / 10


def test_a_kept_index_has_no_checksums(bare: PatchyStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.formats.spans.indexed_file._WORTH_KEEPING_BYTES", 1000)
    for name in ("x.tfrecord", "x.tar", "x.rec", "x.msgpack", "x.zip"):
        here = open_here(bare, name)
        assert (bare.folder / f"{name}.annex").exists()
        there = open_there(bare, name)
        size = os.path.getsize(bare.folder / name)
        bare.reset()
        assert_same(there[[5, 0, 59]], here[[5, 0, 59]])
        assert 0 < bare.brought_bytes < size / 2
        assert there.verify(decode=True).ok
        announced = there.announce(np.array([4, 8]), tuple(there.schema))
        bare.reset()
        for field in there.schema:
            there.read_values(np.array([4, 8]), field)
        assert (bare.regions > 0, bare.unannounced) == (True, 0)
        announced.close()
        assert_same_batches(batches(open_there(bare, name), name), batches(here, name))


@pytest.mark.parametrize("name", ["x.tar", "x.tfrecord"])
def test_compressed(bare: PatchyStore, name: str) -> None:
    data = (bare.folder / name).read_bytes()
    (bare.folder / name).write_bytes(gzip.compress(data, 1))
    there = open_there(bare, name)
    assert there.is_local
    assert bare.largest_region <= 16 << 20
    assert_same(there[:3], open_here(bare, name)[:3])
    assert there.verify().ok
    assert isinstance(pickle.loads(pickle.dumps(there)).path, RemotePath)


def test_a_packed_zip(bare: PatchyStore) -> None:
    import zipfile

    with zipfile.ZipFile(bare.folder / "y.zip", "w", zipfile.ZIP_DEFLATED) as out:
        for i in range(50):
            out.writestr(f"{i:03d}.txt", f"text {i} " * 1000)
            out.writestr(f"{i:03d}.jpg", PICTURES[i])
    hr.index(bare.folder / "y.zip")
    here, there = ZIP.open(bare.folder / "y.zip"), ZIP.open(bare.url("y.zip"))
    bare.reset()
    assert_same(there[[5, 9]], here[[5, 9]])
    assert bare.brought_bytes < os.path.getsize(bare.folder / "y.zip") / 4
    assert there.rows(np.arange(3)) == here.rows(np.arange(3))
    assert there.verify(decode=True).ok


def test_labels_of_different_lengths_come_by_one_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    labels = [[1.0], [1.0, 2.0], [3.0, 4.0, 5.0]] * 4
    rows = [(picture, label, i) for i, (picture, label) in enumerate(zip(PICTURES, labels, strict=False))]
    fields = {"image": hr.Image(), "label": hr.Json(), "id": hr.Int()}
    hr.write(tmp_path / "x.rec", rows, fields=fields)
    store = PatchyStore(tmp_path).install(monkeypatch)
    here, there = open_here(store, "x.rec"), open_there(store, "x.rec")
    store.reset()
    assert list(there.read_values(np.arange(12), "label")) == list(here.read_values(np.arange(12), "label"))
    assert store.regions == 1


def test_parts_of_an_ffr(store: PatchyStore, tmp_path: Path) -> None:
    half = COUNT // 2
    for number, part in enumerate((PICTURES[:half], PICTURES[half:])):
        hr.write(store.folder / f"p{number}.ffr", [(data,) for data in part], fields={"image": hr.Image()})
    there = FFR.open([store.url("p0.ffr"), store.url("p1.ffr")], decode="bytes")
    indices = np.array([59, 0, 30, 29], np.int64)
    announced = there.announce(indices, ("data",))
    store.reset()
    assert there.read_bytes(indices, "data") == [PICTURES[i] for i in indices]
    assert (store.regions, store.unannounced) == (2, 0)
    announced.close()
    out = np.zeros(sum(len(PICTURES[i]) for i in indices) + 5, np.uint8)
    ends = there.reader.read_into(indices, out)
    assert out[: ends[-1]].tobytes() == b"".join(PICTURES[i] for i in indices)
    assert [array.tobytes() for array in there.reader.read(indices)] == [PICTURES[i] for i in indices]
    assert there.view(30, "data").tobytes() == PICTURES[30]
    assert isinstance(pickle.loads(pickle.dumps(there)).reader.paths[1], RemotePath)
    assert there.verify().ok


def test_a_packed_folder(store: PatchyStore, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    for i in range(30):
        (tmp_path / "a" / f"{i}.jpg").write_bytes(PICTURES[i])
    hr.pack(store.folder / "folder.ffr", tmp_path)
    there = FFR.open(store.url("folder.ffr"))
    assert there["a/7.jpg"].data == PICTURES[7]


@pytest.mark.parametrize("name", FORMATS)
def test_a_damaged_object_is_an_error_of_ours(bare: PatchyStore, name: str) -> None:
    data = (bare.folder / name).read_bytes()
    (bare.folder / name).write_bytes(data[: len(data) * 2 // 3])
    with pytest.raises((FormatError, CorruptSampleError)):
        list(open_there(bare, name))


# -- a real server --


@pytest.fixture(params=["blocks", "ranges"])
def server(folder: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[RangeServer]:
    """The files over HTTP; small objects are read as large ones are, too."""
    remote_file = pytest.importorskip("headrace.storage.remote_file")
    if request.param == "ranges":
        monkeypatch.setattr(remote_file, "_SMALL_BYTES", 0)
    with serve_ranges(folder) as found:
        yield found


def open_served(server: RangeServer, name: str) -> Any:
    path = RemotePath(server.url_of(name), StorageOptions(store={"allow_http": True}))
    return FORMATS[name].open(path, **options_of(name))


@pytest.mark.parametrize("name", FORMATS)
def test_over_http(server: RangeServer, folder: Path, name: str, request: pytest.FixtureRequest) -> None:
    here = FORMATS[name].open(folder / name, **options_of(name))
    with open_served(server, name) as there:
        are_ranges = request.node.callspec.params["server"] == "ranges"
        assert server.requests <= (9 if are_ranges else 4)  # an annex is proven by six ranges of its file
        assert_same(there[[31, 2]], here[[31, 2]])
        assert_same(list(there), list(here))
        assert_same_batches(batches(there, name), batches(here, name))
        report = there.verify(decode=True)
        assert report.ok, report.problems
        there.check_file()  # nothing was touched that had not been brought


@pytest.mark.parametrize("name", FORMATS)
def test_no_annex_where_the_store_refuses_what_it_has_not(tmp_path: Path, folder: Path, name: str) -> None:
    pytest.importorskip("headrace.storage.remote_file")
    shutil.copy(folder / name, tmp_path / name)
    with serve_ranges(tmp_path) as server:
        server.refuses_missing = True
        with open_served(server, name) as there:
            assert len(there) == COUNT
            assert_same(there[:2], FORMATS[name].open(tmp_path / name, **options_of(name))[:2])


# Where samples lie


def brought(store: PatchyStore, dataset: Any, samples: list[int]) -> dict[str, set[int]]:
    """The bytes of each file that are brought for samples."""
    announced = dataset.announce(np.array(samples), tuple(dataset.schema))
    found: dict[str, set[int]] = {}
    for one in store.announced:
        found.setdefault(one.path, set()).update(np.flatnonzero(one.is_brought).tolist())
    if announced is not None:
        announced.close()
    return found


def located(dataset: Any, samples: list[int], chosen: set[int]) -> dict[str, set[int]]:
    """The bytes of each file in which some of the samples lie, by their places."""
    found: dict[str, set[int]] = {}
    for spans in dataset.stored_spans(np.array(samples), tuple(dataset.schema)):
        assert spans.path.startswith("s3://patchy/")
        for owner, offset, size in zip(spans.owners, spans.offsets, spans.sizes, strict=True):
            if int(owner) in chosen and size:
                found.setdefault(spans.path, set()).update(range(int(offset), int(offset + size)))
    return found


@pytest.mark.parametrize("name", [*FORMATS, "x.npz", "several", "mixed", "joined"])
def test_where_samples_lie_is_what_is_brought_for_them(
    folder: Path, store: PatchyStore, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(columns, "_HELD_BYTES", 0)  # small arrays would be held
    dataset = open_many(folder, store, name)
    samples = [7, 3, 40, 12]
    everything = located(dataset, samples, set(range(4)))
    assert everything == brought(store, dataset, samples)
    assert everything
    for place, sample in enumerate(samples):
        assert located(dataset, samples, {place}) == brought(store, dataset, [sample])


def open_many(folder: Path, store: PatchyStore, name: str) -> Any:
    if name == "x.npz":
        np.savez(folder / name, a=np.arange(400).reshape(50, 8), b=np.ones((50, 3)))
        return hr.open(store.url(name))
    if name == "joined":
        np.savez(folder / "y.npz", z=np.arange(COUNT * 4).reshape(COUNT, 4))
        return hr.zip_fields([open_there(store, "x.beton"), hr.open(store.url("y.npz"))])
    if name in FORMATS:
        return open_there(store, name)
    parts = [open_there(store, "x.beton"), open_there(store, "x.beton")]
    return hr.concat(parts) if name == "several" else hr.mix(parts, weights=[2, 1])
