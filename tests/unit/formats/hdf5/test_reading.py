"""HDF5 files of h5py: types, layouts, what is left out, batches, threads, processes."""

from __future__ import annotations

import json
import os
import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headrace as hr
from headrace.errors import ClosedError, CorruptSampleError, FormatError, MissingExtraError
from headrace.formats.hdf5 import Hdf5Dataset
from headrace.formats.hdf5.chunk_cache import ChunkCache

h5py = pytest.importorskip("h5py")

GOLDEN = Path(__file__).parents[3] / "golden" / "formats"
TRUTH = [json.loads(str(text)) for text in np.load(GOLDEN / "truth.npy")]
N = 23


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "x.h5"


def values_of(dataset: Any, name: str) -> Any:
    order = np.random.default_rng(0).permutation(np.tile(np.arange(N), 2))
    return dataset.read_values(order, name), order


# -- golden ---------------------------------------------------------------------------------------------------


def test_the_golden_file_is_as_the_truth_says() -> None:
    dataset, raw = hr.open(GOLDEN / "table.h5"), np.load(GOLDEN / "raw.npy")
    assert list(dataset.schema) == ["caption", "image", "label", "raw", "score", "target/box"]
    assert dataset.schema["image"] == hr.Bytes()
    assert dataset.schema["raw"] == hr.NDArray("uint8", (16, 20, 3))
    assert dataset.schema["target/box"] == hr.NDArray("float32", (4,))
    for i, truth in enumerate(TRUTH):
        sample = dataset[i]
        assert sample.image == (GOLDEN / "truth" / f"{truth['key']}.jpg").read_bytes()
        assert (sample.caption, sample.label, sample.score) == (truth["caption"], truth["label"], truth["score"])
        assert np.array_equal(sample.raw, raw[i])
        assert sample["target/box"].tolist() == truth["box"]
    assert dataset.keys is None
    report = dataset.verify(decode=True)
    assert (report.ok, report.checksums_checked) == (True, 20)  # those of the chunks of raw


def test_what_is_no_field_is_named(caplog: pytest.LogCaptureFixture) -> None:
    dataset = hr.open(GOLDEN / "table.h5")
    assert dataset.left_out == ["shape_of_other_length: its first axis is not 20, as that of the fields is"]
    assert "shape_of_other_length" in caplog.text
    with pytest.raises(KeyError, match="was left out; its first axis is not 20"):
        dataset.read_values(np.arange(2), "shape_of_other_length")


def test_pictures_by_decode_and_by_fields() -> None:
    pixels = hr.open(GOLDEN / "table.h5", decode="image")[11].image
    assert pixels.ndim == 3
    chosen = hr.open(GOLDEN / "table.h5", decode={"image": "image"}, fields={"raw": hr.Image(mode="raw")})
    assert np.array_equal(chosen[11].image, pixels)
    spans = chosen.image_spans(np.array([3, 1]), "raw")
    assert spans.modes.tolist() == [1, 1]
    assert spans.widths.tolist() == [20, 20]
    loader = hr.Loader(chosen, batch_size=4, pipelines={"raw": [], "image": None, "caption": None})
    assert np.array_equal(next(iter(loader)).raw, np.load(GOLDEN / "raw.npy")[:4])


# -- types and layouts ----------------------------------------------------------------------------------------

RNG = np.random.default_rng(5)
ARRAYS: dict[str, Any] = {
    "int8": RNG.integers(-9, 9, N).astype("i1"),
    "big": RNG.integers(-9, 9, N).astype(">i4"),
    "unsigned": RNG.integers(0, 9, N).astype("u8"),
    "half": RNG.normal(size=N).astype("f2"),
    "double": RNG.normal(size=N),
    "bool": RNG.integers(0, 2, N).astype(bool),
    "bools": RNG.integers(0, 2, (N, 3)).astype(bool),
    "matrix": RNG.normal(size=(N, 3, 5)).astype(">f4"),
    "complex": (RNG.normal(size=(N, 2)) * 1j).astype("c8"),
}
LAYOUTS: dict[str, dict[str, Any]] = {
    "contiguous": {},
    "chunked": {"chunks": 7},
    "resizable": {"chunks": 7, "maxshape": True},
    "one chunk": {"chunks": N},
    "gzip": {"chunks": 4, "compression": "gzip"},
    "everything": {"chunks": 5, "compression": "gzip", "shuffle": True, "fletcher32": True},
    "checksum": {"chunks": 5, "fletcher32": True},
    "lzf": {"chunks": 5, "compression": "lzf", "shuffle": True},
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kept_bytes", [0, 1 << 20])
def test_numbers_in_every_layout(path: Path, layout: str, kept_bytes: int) -> None:
    with h5py.File(path, "w") as file:
        for name, array in ARRAYS.items():
            options = dict(LAYOUTS[layout])
            if "chunks" in options:
                options["chunks"] = (options["chunks"], *array.shape[1:])
            if options.pop("maxshape", False):
                options["maxshape"] = (None,) * array.ndim
            file.create_dataset(name, data=array, **options)
    with hr.open(path, kept_bytes=kept_bytes) as dataset:
        assert set(dataset.schema) == set(ARRAYS)
        for name, array in ARRAYS.items():
            values, order = values_of(dataset, name)
            assert np.array_equal(values, array[order]), name
            assert dataset.schema[name].kind == {1: "float" if array.dtype.kind == "f" else "int"}.get(
                array.ndim, "ndarray"
            )


@pytest.mark.parametrize("compression", [None, "gzip", "lzf"])
def test_chunks_that_cut_rows(path: Path, compression: str | None) -> None:
    array = RNG.integers(0, 99, (N, 7, 6))
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=array, chunks=(4, 3, 4), compression=compression)
        file.create_dataset("wide", data=array[:, :, 0], chunks=(4, 16), maxshape=(None, None), compression=compression)
    dataset = hr.open(path)
    values, order = values_of(dataset, "x")
    assert np.array_equal(values, array[order])
    assert np.array_equal(values_of(dataset, "wide")[0], array[order][:, :, 0])
    assert np.array_equal(dataset.page_numbers(), np.arange(N) // 4)


def test_what_was_never_written_is_the_fill_value(path: Path) -> None:
    with h5py.File(path, "w") as file:
        some = file.create_dataset("some", (N, 2), "i4", chunks=(5, 2), fillvalue=7)
        some[11] = 3
        file.create_dataset("none", (N,), "f4", fillvalue=1.5)
        packed = file.create_dataset("packed", (N,), "i4", chunks=(5,), fillvalue=-1, compression="gzip")
        packed[:5] = 2
        file.create_dataset("text", (N,), h5py.string_dtype(), chunks=(5,))
        file.create_dataset("bytes", (N,), h5py.vlen_dtype(np.uint8))
    dataset = hr.open(path)
    assert [sample.some.tolist() for sample in dataset[[0, 11]]] == [[7, 7], [3, 3]]
    assert [sample.none for sample in dataset[:2]] == [1.5, 1.5]
    assert [sample.packed for sample in dataset[[0, 4, 5]]] == [2, 2, -1]
    assert (dataset[22].text, dataset[22].bytes) == ("", b"")


TEXTS = ["", "a café", "x" * 5000, *(f"text {i}" for i in range(N - 3))]
BLOBS = [np.arange(i * 7 % 9000, dtype=np.uint8) for i in range(0, 1000 * N, 1000)]


@pytest.mark.parametrize("options", [{}, {"chunks": (4,)}, {"chunks": (4,), "compression": "gzip"}])
@pytest.mark.parametrize("userblock", [0, 512])
def test_values_of_any_length(path: Path, options: dict[str, Any], userblock: int) -> None:
    with h5py.File(path, "w", userblock_size=userblock) as file:
        for name, dtype in (("blob", np.uint8), ("list", np.float32)):
            made = file.create_dataset(name, (N,), h5py.vlen_dtype(dtype), **options)
            for i, blob in enumerate(BLOBS):
                made[i] = blob
        file.create_dataset("text", data=TEXTS, dtype=h5py.string_dtype(), **options)
        file.create_dataset("fixed", data=np.array([t.encode()[:9] for t in TEXTS], "S9"), **options)
        file.create_dataset("opaque", data=np.array([bytes([i, 0, 1]) for i in range(N)], "V3"), **options)
    dataset = hr.open(path)
    blobs, order = values_of(dataset, "blob")
    assert blobs == [BLOBS[i].tobytes() for i in order]
    assert values_of(dataset, "list")[0] == [BLOBS[i].tolist() for i in order]
    assert values_of(dataset, "text")[0] == [TEXTS[i] for i in order]
    assert values_of(dataset, "fixed")[0] == [TEXTS[i].encode()[:9].decode() for i in order]
    assert values_of(dataset, "opaque")[0] == [bytes([i, 0, 1]) for i in order]
    assert {name: field.kind for name, field in dataset.schema.items()} == {
        "blob": "bytes",
        "list": "json",
        "text": "text",
        "fixed": "text",
        "opaque": "bytes",
    }


def test_compact_data(path: Path) -> None:
    def compact(file: Any, name: str, dtype: Any) -> None:
        plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plist.set_layout(h5py.h5d.COMPACT)
        kind = h5py.h5t.py_create(np.dtype(dtype), logical=True)
        h5py.h5d.create(file.id, name.encode(), kind, h5py.h5s.create_simple((3,)), plist)

    with h5py.File(path, "w") as file:
        for name, dtype in (("number", "i4"), ("fixed", "S4"), ("text", h5py.string_dtype())):
            compact(file, name, dtype)
        file["number"][:] = [1, 2, 3]
        file["fixed"][:] = file["text"][:] = [b"a", b"bc", b"def"]
    dataset = hr.open(path)
    assert [tuple(sample) for sample in dataset] == [("a", 1, "a"), ("bc", 2, "bc"), ("def", 3, "def")]


def test_enums_are_integers(path: Path) -> None:
    with h5py.File(path, "w") as file:
        kind = h5py.enum_dtype({"cat": 1, "dog": 4}, basetype="i2")
        file.create_dataset("animal", data=np.array([4, 1], "i2"), dtype=kind)
    assert [sample.animal for sample in hr.open(path)] == [4, 1]


def test_the_common_length(path: Path) -> None:
    with h5py.File(path, "w") as file:
        file["a"], file["b"], file["c"], file["d"], file["e"] = [1], [2, 3], [1], [4, 5], [1, 2, 3]
    dataset = hr.open(path)
    assert list(dataset.schema) == ["b", "d"]  # as often as 1, and longer
    assert len(dataset) == 2
    assert [line.partition(":")[0] for line in dataset.left_out] == ["a", "c", "e"]


def test_a_number_that_does_not_fit(path: Path) -> None:
    with h5py.File(path, "w") as file:
        file["x"] = np.array([1, 2**63], np.uint64)
    dataset = hr.open(path)
    assert dataset[0].x == 1
    with pytest.raises(CorruptSampleError, match=r"sample 1.*does not fit"):
        _ = dataset[1]


def test_order_of_creation_is_kept(path: Path) -> None:
    with h5py.File(path, "w", track_order=True) as file:
        file["z"], file["a"] = [1], [2]
    assert list(hr.open(path).schema) == ["z", "a"]


# -- the dataset as others see it -----------------------------------------------------------------------------


def test_wrong_fields_and_options(path: Path) -> None:
    with pytest.raises(ValueError, match="'caption' cannot be Int"):
        hr.open(GOLDEN / "table.h5", fields={"caption": hr.Int()})
    with pytest.raises(ValueError, match="has no field nothing"):
        hr.open(GOLDEN / "table.h5", fields={"nothing": hr.Int()})
    with pytest.raises(ValueError, match="kept_bytes must not be negative"):
        hr.open(GOLDEN / "table.h5", kept_bytes=-1)
    with pytest.raises(ValueError, match="allow_pickle"):
        hr.open(GOLDEN / "table.h5", decode="pickle")


def labels(dataset: Any) -> list[int]:
    return [sample.label for sample in dataset]


def test_threads_pickles_and_forks(tmp_path: Path) -> None:
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("label", data=np.arange(500), chunks=(7,), compression="lzf")
        file.create_dataset("packed", data=np.arange(500), chunks=(7,), compression="gzip")
    dataset = hr.open(path, kept_bytes=1000)
    expected = list(range(500))
    with ThreadPoolExecutor(8) as pool:
        assert all(found == expected for found in pool.map(labels, [dataset] * 16))
    again = pickle.loads(pickle.dumps(dataset))
    assert labels(again) == expected
    assert again.fingerprint == dataset.fingerprint
    child = os.fork()
    if child == 0:
        os._exit(0 if labels(dataset) == expected and [s.packed for s in dataset] == expected else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_closing(path: Path) -> None:
    dataset = hr.open(GOLDEN / "table.h5")
    dataset.close()
    dataset.close()
    with pytest.raises(ClosedError):
        _ = dataset[0]


def test_fingerprints_differ(tmp_path: Path) -> None:
    found = set()
    for i in range(3):
        with h5py.File(tmp_path / f"{i}.h5", "w") as file:
            file["x"] = np.arange(5) + i
        found.add(hr.open(tmp_path / f"{i}.h5").fingerprint)
    assert len(found) == 3


def test_a_file_that_h5py_has_open_can_be_read(path: Path) -> None:
    with h5py.File(path, "w") as file:
        file["x"] = [1, 2]
        file.flush()
        assert [sample.x for sample in hr.open(path)] == [1, 2]


def test_windows_of_jpegs(tmp_path: Path) -> None:
    path = tmp_path / "table.h5"
    path.write_bytes((GOLDEN / "table.h5").read_bytes())
    hr.index(path)
    dataset = hr.open(path, decode="image")
    spans = dataset.image_spans(np.arange(20), "image")
    assert spans.tile_indices is not None
    assert sum(spans.tile_indices[2] > 0) == 19  # one of them is progressive
    assert dataset.verify(decode=True).ok
    with pytest.raises(ValueError, match="names is for"):
        hr.index(path, names=["a"])


def test_without_jpegs_there_are_checksums(path: Path) -> None:
    with h5py.File(path, "w") as file:
        file["x"] = [1, 2]
    hr.index(path)
    dataset = hr.open(path)
    assert dataset.has_checksums
    assert dataset.tile_index is None
    assert dataset.verify().checksums_checked == 2


def test_the_cache_is_bounded() -> None:
    cache = ChunkCache(100)
    for i in range(9):
        cache.put((0, i), np.zeros(40, np.uint8))
        assert cache.size_bytes <= 100
    cache.put((0, 8), np.zeros(40, np.uint8))
    assert cache.get((0, 0)) is None
    assert cache.get((0, 8)) is not None
    cache.put((1, 0), np.zeros(101, np.uint8))
    assert cache.get((1, 0)) is None


def test_a_batch_unpacks_each_chunk_once(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from headrace.formats.hdf5 import items

    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=np.arange(100), chunks=(10,), compression="gzip")
    calls = []
    undo = items.undo
    monkeypatch.setattr(items, "undo", lambda *args: calls.append(1) or undo(*args))
    dataset = Hdf5Dataset(path, kept_bytes=0)
    order = np.random.default_rng(1).permutation(100)
    assert np.array_equal(dataset.read_values(order, "x"), order)
    assert len(calls) == 10


def test_missing_library(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "h5py", None)
    with pytest.raises(MissingExtraError, match=r"headrace\[hdf5\]"):
        hr.open(GOLDEN / "table.h5")


def test_no_datasets(path: Path) -> None:
    with h5py.File(path, "w") as file:
        file.create_group("empty")
    with pytest.raises(FormatError, match="there is no dataset in it"):
        hr.open(path)
