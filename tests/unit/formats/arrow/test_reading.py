"""Threads, processes, pickles, the cache of row groups, tile indices, folders of Hugging Face."""

from __future__ import annotations

import json
import multiprocessing
import os
import pickle
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from tests.unit.formats.arrow.tables import ENDINGS, FILES, GOLDEN, photo, samples, save, write

import headrace
from headrace.errors import ClosedError, FormatError, MissingExtraError
from headrace.fields import Image, Int
from headrace.formats.arrow import ParquetDataset
from headrace.formats.arrow.part_cache import PartCache

if TYPE_CHECKING:
    from pathlib import Path

    from headrace.types import Dataset


def numbers(path: Path, count: int = 1000, **options: Any) -> Any:
    table = pa.table(
        {"n": pa.array(range(count)), "data": pa.array([bytes([i % 256]) * (i % 50) for i in range(count)])}
    )
    return headrace.open(save(path, table, rows=100), **options)


@pytest.mark.parametrize("name", ["x.parquet", "x.arrow", "stream.arrow"])
def test_many_threads_read_at_once(name: str, tmp_path: Path) -> None:
    dataset = numbers(tmp_path / name, kept_bytes=2000)

    def read(seed: int) -> bool:
        order = np.random.default_rng(seed).integers(0, 1000, 200)
        right = dataset.read_values(order, "n").tolist() == order.tolist()
        return right and dataset.read_bytes(order, "data") == [bytes([i % 256]) * (i % 50) for i in order]

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(read, range(40)))


def _label_in_child(dataset: Dataset, answers: Any) -> None:
    answers.put([sample.label for sample in dataset[[3, 19]]])


@pytest.mark.parametrize("name", FILES)
def test_a_forked_process_reads_on(name: str) -> None:
    dataset = headrace.open(GOLDEN / name)
    expected = [sample.label for sample in dataset[[3, 19]]]
    dataset.reader.cache._lock.acquire()  # another thread is at work
    context = multiprocessing.get_context("fork")
    answers = context.Queue()
    child = context.Process(target=_label_in_child, args=(dataset, answers))
    child.start()
    dataset.reader.cache._lock.release()
    assert answers.get(timeout=60) == expected
    child.join()


@pytest.mark.parametrize("name", FILES)
def test_a_pickle_opens_it_again(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(GOLDEN)
    dataset = headrace.open(name, fields={"label": headrace.Float()})
    packed = pickle.dumps(dataset)
    monkeypatch.chdir("/")
    again = pickle.loads(packed)
    assert again[5].label == dataset[5].label
    assert again.schema == dataset.schema
    assert again.fingerprint == dataset.fingerprint


@pytest.mark.parametrize("name", FILES)
def test_closed_is_closed(name: str) -> None:
    dataset = headrace.open(GOLDEN / name)
    spans = dataset.image_spans(np.arange(3), "image")
    dataset.close()
    dataset.close()
    with pytest.raises(ClosedError):
        _ = dataset[0]
    start = int(spans.offsets[2])
    assert spans.base[start : start + int(spans.sizes[2])].tobytes() == photo(2)


def test_a_row_group_is_read_once_for_a_batch_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = numbers(tmp_path / "x.parquet")
    loaded: list[tuple[int, int]] = []
    plain = dataset.parts.load
    monkeypatch.setattr(dataset.parts, "load", lambda *key: loaded.append(key) or plain(*key))
    order = np.random.default_rng(0).permutation(1000)
    dataset.read_values(order, "n")
    assert sorted(loaded) == [(part, 0) for part in range(10)]
    dataset.read_values(order, "n")
    assert len(loaded) == 10


def test_the_cache_is_bounded_and_keeps_the_newest() -> None:
    cache = PartCache(100)
    chunk: Any = object()
    for part in range(20):
        assert cache.get("a", part, lambda: (chunk, 30)) is chunk
        assert cache.size_bytes <= 100
    cache.get("b", 0, lambda: (chunk, 1000))  # larger than all, but the only one of its field
    assert cache.size_bytes == 1030
    cache.get("b", 0, lambda: pytest.fail("it was kept"))
    cache.get("a", 19, lambda: pytest.fail("it was kept"))
    with pytest.raises(ZeroDivisionError):
        cache.get("a", 3, lambda: 1 // 0)  # type: ignore[arg-type, return-value]
    assert cache.get("a", 3, lambda: (chunk, 1)) is chunk


def test_two_threads_that_want_one_part_load_it_once() -> None:
    cache, loads, barrier = PartCache(100), [], threading.Barrier(2)
    chunk: Any = object()

    def load() -> tuple[Any, int]:
        loads.append(threading.get_ident())
        return chunk, 1

    def get() -> None:
        barrier.wait()
        cache.get("a", 0, load)

    threads = [threading.Thread(target=get) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(loads) == 1


@pytest.mark.parametrize("size", [-1, True, "1G"])
def test_a_kept_bytes_is_a_number_of_bytes(size: Any) -> None:
    with pytest.raises(ValueError, match="kept_bytes"):
        headrace.open(GOLDEN / "groups.parquet", kept_bytes=size)


@pytest.mark.parametrize("ending", ENDINGS)
def test_tile_indices_reach_the_loader(ending: str, tmp_path: Path) -> None:
    rows = [(photo(i), i) for i in range(20)]
    path = write(tmp_path / f"x.{ending}", rows, fields={"image": Image(), "n": Int()})
    order = np.array([7, 3, 19])
    assert headrace.open(path).image_spans(order, "image").tile_indices is None
    assert headrace.index(path) == f"{path}.annex"
    dataset = headrace.open(path)
    assert dataset.image_spans(order, "image").tile_indices is not None
    assert dataset.verify(decode=True).ok
    crop = {"image": [headrace.ops.RandomResizedCrop(16)]}
    loader = headrace.Loader(dataset, batch_size=10, order="random", pipelines=crop)
    assert sum(len(batch.n) for batch in loader) == 20
    assert loader.stats.jpegs["window"] > 0
    with pytest.raises(ValueError, match="tile indices alone"):
        headrace.index(path, embed=True)
    write(path, [*rows, rows[0]], fields={"image": Image(), "n": Int()})
    with pytest.warns(RuntimeWarning, match="without their indices"):
        assert headrace.open(path).image_spans(order, "image").tile_indices is None
    assert not headrace.open(path).verify().ok


def test_a_folder_of_hugging_face_is_indexed_beside_it(tmp_path: Path) -> None:
    folder = tmp_path / "saved"
    shutil.copytree(GOLDEN / "hf_saved", folder)
    assert headrace.index(f"{folder}/") == f"{folder}.annex"
    assert headrace.open(folder).image_spans(np.arange(3), "image").tile_indices is not None
    path = save(tmp_path / "y.parquet", pa.table({"n": [1]}))
    headrace.index(path)
    assert headrace.open(path).has_checksums
    assert headrace.open(path).tile_index is None


def test_pictures_that_are_no_jpegs_are_decoded(tmp_path: Path) -> None:
    raw = np.arange(4 * 6 * 3, dtype=np.uint8).reshape(4, 6, 3)
    path = write(tmp_path / "x.arrow", [(raw,)] * 3, fields={"image": Image(mode="raw")})
    dataset = headrace.open(path)
    assert set(dataset.image_spans(np.arange(3), "image").modes.tolist()) <= {1, 2}  # pixels, or a PNG to decode
    assert np.array_equal(next(iter(headrace.Loader(dataset, 3))).image, np.stack([raw] * 3))


def saved(folder: Path, files: int) -> Path:
    folder.mkdir()
    names = [f"data-{i:05d}-of-{files:05d}.arrow" for i in range(files)]
    for i, name in enumerate(names):
        first = i * 10
        table = pa.table({"n": pa.array(range(first, first + 10)), "t": [f"t{k}" for k in range(first, first + 10)]})
        save(folder / "stream.arrow", table)
        os.rename(folder / "stream.arrow", folder / name)
    (folder / "state.json").write_text(json.dumps({"_data_files": [{"filename": name} for name in names]}))
    (folder / "dataset_info.json").write_text("{}")
    return folder


def test_a_saved_folder_of_several_files_is_one_dataset(tmp_path: Path) -> None:
    dataset = headrace.open(saved(tmp_path / "d", 3))
    order = np.random.default_rng(0).permutation(30)
    assert dataset.read_values(order, "n").tolist() == order.tolist()
    assert dataset.read_values(order, "t") == [f"t{i}" for i in order]
    assert dataset.read_ragged(order, "t").values.tobytes() == "".join(f"t{i}" for i in order).encode()
    assert headrace.formats.summary.summarize(tmp_path / "d").values["samples"] == 30


def test_a_saved_folder_that_is_not_whole(tmp_path: Path) -> None:
    folder = saved(tmp_path / "d", 2)
    state = json.loads((folder / "state.json").read_text())
    os.rename(folder / "data-00001-of-00002.arrow", tmp_path / "away.arrow")
    with pytest.raises(FormatError, match=r"data-00001-of-00002\.arrow is missing"):
        headrace.open(folder)
    os.symlink(tmp_path / "away.arrow", folder / "data-00001-of-00002.arrow")
    with pytest.raises(FormatError, match="link"):
        headrace.open(folder)
    assert len(headrace.open(folder, follow_links=True)) == 20
    os.remove(folder / "data-00001-of-00002.arrow")
    save(folder / "data-00001-of-00002.arrow", pa.table({"other": [1]}))
    with pytest.raises(FormatError, match="its columns are not those of data-00000"):
        headrace.open(folder)
    for wrong in ("../away.arrow", "/etc/passwd", "", None, 3):
        (folder / "state.json").write_text(json.dumps({"_data_files": [*state["_data_files"], {"filename": wrong}]}))
        with pytest.raises(FormatError, match="not the name of a file beside it"):
            headrace.open(folder)
    for text, problem in (("{", "cannot be read"), ("{}", "no list of data files"), ('{"_data_files": []}', "no data")):
        (folder / "state.json").write_text(text)
        with pytest.raises(FormatError, match=problem):
            headrace.open(folder)
    os.remove(folder / "state.json")
    with pytest.raises(FormatError, match=r"no state\.json"):
        headrace.open(folder, format="arrow")


def test_a_folder_of_splits_says_what_to_open(tmp_path: Path) -> None:
    (tmp_path / "dataset_dict.json").write_text('{"splits": ["train", "test"]}')
    with pytest.raises(FormatError, match=r"several datasets \(train, test\).*Open one of them, such as .*/train"):
        headrace.open(tmp_path)


def test_the_format_is_found_by_content(tmp_path: Path) -> None:
    for name, kind in (("groups.parquet", "ParquetDataset"), ("file.arrow", "ArrowDataset")):
        shutil.copy(GOLDEN / name, tmp_path / "noending")
        assert type(headrace.open(tmp_path / "noending")).__name__ == kind
    shutil.copy(GOLDEN / "hf_saved" / "data-00000-of-00001.arrow", tmp_path / "noending")
    assert len(headrace.open(tmp_path / "noending")) == 20


def test_without_pyarrow_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    for name in FILES:
        with pytest.raises(MissingExtraError, match=r"pip install 'headrace\[arrow\]'"):
            headrace.open(GOLDEN / name)


def test_a_file_that_is_cut_short_while_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "x.arrow"
    dataset = numbers(path, 100_000)
    _ = dataset[0]
    os.truncate(path, 5000)
    with pytest.raises(FormatError, match="shorter"):
        dataset.read_values(np.arange(99_000, 100_000), "n")


def test_fingerprints_tell_datasets_apart(tmp_path: Path) -> None:
    one, other = write(tmp_path / "x.arrow", samples(5)), write(tmp_path / "y.arrow", samples(6)[1:])
    assert headrace.open(one).fingerprint != headrace.open(other).fingerprint
    assert (
        ParquetDataset(GOLDEN / "groups.parquet").fingerprint == ParquetDataset(GOLDEN / "groups.parquet").fingerprint
    )
