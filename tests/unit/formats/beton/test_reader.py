from __future__ import annotations

import itertools
import multiprocessing
import os
import pickle
import struct
import sys
import threading
import time
import tracemalloc
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.helpers import ALL_FIELDS, MIB, labels_of, same_value, write_all_fields

import headrace as hr
from headrace.errors import ClosedError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.formats.beton import BetonDataset

COUNT = 11


@pytest.fixture(scope="module")
def samples_and_path(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Any], Path]:
    path = tmp_path_factory.mktemp("reader") / "x.beton"
    names = [f"class/{i}.jpg" for i in range(COUNT)]
    classes = {"label": ["a", "b", "ü"]}
    samples = write_all_fields(path, COUNT, names=names, class_names=classes, metadata={"by": ["me", 1.5]})
    return samples, path


@pytest.fixture
def dataset(samples_and_path: tuple[list[Any], Path]) -> Iterator[BetonDataset]:
    with hr.open(samples_and_path[1]) as opened:
        yield opened


@pytest.fixture
def samples(samples_and_path: tuple[list[Any], Path]) -> list[Any]:
    return samples_and_path[0]


def test_every_value_comes_back(dataset: BetonDataset, samples: list[Any]) -> None:
    assert len(dataset) == COUNT
    for found, given in zip(dataset, samples, strict=True):
        assert found.keys() == tuple(ALL_FIELDS)
        for name, a, b in zip(ALL_FIELDS, found, given, strict=True):
            assert same_value(a, b), name


def test_schema_is_what_was_written(dataset: BetonDataset) -> None:
    assert dict(dataset.schema) == ALL_FIELDS
    assert list(dataset.schema) == list(ALL_FIELDS)
    with pytest.raises(TypeError):
        dataset.schema["x"] = hr.Int()  # type: ignore[index]


def test_it_is_a_dataset(dataset: BetonDataset) -> None:
    assert isinstance(dataset, hr.Dataset)
    assert f"{COUNT} samples" in repr(dataset)
    assert "raw: image" in repr(dataset)


MASK = np.arange(COUNT) % 3 == 1


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (slice(2, 9, 3), [2, 5, 8]),
        (slice(None, None, -1), list(range(COUNT))[::-1]),
        (slice(-3, None), [8, 9, 10]),
        (slice(5, 5), []),
        (slice(100, 200), []),
        ([3, 6, 0], [3, 6, 0]),
        ([-1, 3, 3], [10, 3, 3]),
        ([], []),
        ((4, 2), [4, 2]),
        (np.array([1, -2]), [1, 9]),
        (np.array([7, 1], np.uint64), [7, 1]),
        (np.array([-1], np.int8), [10]),
        (range(0, 6, 2), [0, 2, 4]),
        (MASK, [1, 4, 7, 10]),
        (MASK.tolist(), [1, 4, 7, 10]),
    ],
)
def test_many_at_once(dataset: BetonDataset, key: Any, expected: list[int]) -> None:
    assert [sample.label + 3 for sample in dataset[key]] == expected


@pytest.mark.parametrize(
    ("key", "expected"), [(0, 0), (-1, 10), (-COUNT, 0), (np.int16(4), 4), (np.array(5), 5), (True, 1)]
)
def test_one(dataset: BetonDataset, key: Any, expected: int) -> None:
    assert dataset[key].label + 3 == expected


@pytest.mark.parametrize("key", [COUNT, -COUNT - 1, 2**70, [0, COUNT], [-COUNT - 1], np.array([2**63], np.uint64)])
def test_out_of_range_is_an_index_error_that_says_so(dataset: BetonDataset, key: Any) -> None:
    with pytest.raises(IndexError, match=f"out of range, the dataset has {COUNT} samples"):
        dataset[key]


@pytest.mark.parametrize("key", [MASK[:-1], [True]])
def test_a_mask_of_another_length(dataset: BetonDataset, key: Any) -> None:
    with pytest.raises(IndexError, match=f"a mask must have {COUNT} entries"):
        dataset[key]


@pytest.mark.parametrize("key", [1.5, [1.5], ["a"], [[1, 2]], None, np.zeros((2, 2), int)])
def test_other_keys_are_type_errors(dataset: BetonDataset, key: Any) -> None:
    with pytest.raises(TypeError):
        dataset[key]


def test_read_bytes_gives_what_is_stored(dataset: BetonDataset, samples: list[Any]) -> None:
    assert dataset.read_bytes([3, -1, 3], "jpg") == [samples[i][3] for i in (3, 10, 3)]
    assert dataset.read_bytes(range(COUNT), "blob") == [s[4] for s in samples]
    assert dataset.read_bytes(MASK, "array") == [samples[i][7].tobytes() for i in (1, 4, 7, 10)]
    assert dataset.read_bytes([], "raw") == []


def test_read_bytes_of_wrong_fields(dataset: BetonDataset) -> None:
    with pytest.raises(ValueError, match=r"read it with column\('label'\)"):
        dataset.read_bytes([0], "label")
    with pytest.raises(KeyError, match=r"no field 'x' in .*x\.beton; the fields are label"):
        dataset.read_bytes([0], "x")
    with pytest.raises(IndexError, match="sample 11 is out of range"):
        dataset.read_bytes([11], "raw")


@pytest.mark.parametrize("field", ["raw", "array", "tensor", "blob"])
def test_views_are_the_file_itself(dataset: BetonDataset, samples: list[Any], field: str) -> None:
    for i in (1, 2, -1):
        view = dataset.view(i, field)
        assert np.shares_memory(view, dataset.mapped)
        assert not view.flags.writeable
        given = samples[i][list(ALL_FIELDS).index(field)]
        assert view.tobytes() == (given if isinstance(given, bytes) else given.tobytes())


def test_there_is_no_view_of_jpeg_and_numbers(dataset: BetonDataset) -> None:
    with pytest.raises(ValueError, match="stored as JPEG"):
        dataset.view(0, "jpg")
    with pytest.raises(ValueError, match="column"):
        dataset.view(0, "score")


def test_columns_of_numbers(dataset: BetonDataset) -> None:
    labels, scores = dataset.column("label"), dataset.column("score")
    assert labels.tolist() == [i - 3 for i in range(COUNT)]
    assert scores.tolist() == [i / 3 for i in range(COUNT)]
    assert np.shares_memory(labels, dataset.mapped)
    assert not labels.flags.writeable
    with pytest.raises(ValueError, match="'raw' is not a number"):
        dataset.column("raw")


def test_what_the_annex_knows(dataset: BetonDataset) -> None:
    assert dataset.keys is not None
    assert list(dataset.keys) == [f"class/{i}.jpg" for i in range(COUNT)]
    assert dataset.keys.index("class/7.jpg") == 7
    assert dataset.class_names == {"label": ["a", "b", "ü"]}
    assert dataset.metadata == {"by": ["me", 1.5]}
    assert dataset.has_checksums


def test_without_the_annex(samples_and_path: tuple[list[Any], Path]) -> None:
    samples, path = samples_and_path
    with hr.open(path, annex=False) as dataset:
        assert (dataset.annex, dataset.keys, dataset.class_names, dataset.metadata) == (None, None, {}, None)
        assert not dataset.has_checksums
        assert dataset.schema["text"] == hr.Bytes()
        assert dataset[4].text == samples[4][6].encode()
        assert dataset.read_bytes([4], "jpg") == [samples[4][3]]
        assert dataset.verify(decode=True).ok


def test_without_checksums(samples_and_path: tuple[list[Any], Path]) -> None:
    samples, path = samples_and_path
    with hr.open(path, checksums=False) as dataset:
        assert not dataset.has_checksums
        assert dataset.keys is not None
        assert dataset[4].text == samples[4][6]
        report = dataset.verify()
        assert (report.ok, report.checksums_checked) == (True, 0)


def test_values_own_their_memory(dataset: BetonDataset) -> None:
    sample = dataset[5]
    for value in (sample.raw, sample.jpg, sample.array, sample.tensor):
        assert value.flags.writeable
        assert not np.shares_memory(value, dataset.mapped)


def test_pickling_reopens_with_the_same_options(samples_and_path: tuple[list[Any], Path]) -> None:
    dataset = hr.open(samples_and_path[1], checksums=False)
    data = pickle.dumps(dataset)
    assert len(data) < 1000
    other = pickle.loads(data)
    assert not other.has_checksums
    assert labels_of(other) == labels_of(dataset)


def test_pickling_survives_a_change_of_directory(
    samples_and_path: tuple[list[Any], Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(samples_and_path[1].parent)
    data = pickle.dumps(hr.open("x.beton"))
    monkeypatch.chdir(tmp_path)
    assert len(pickle.loads(data)) == COUNT


def test_closed_is_said_and_views_stay(samples_and_path: tuple[list[Any], Path]) -> None:
    samples, path = samples_and_path
    dataset = hr.open(path)
    view, labels = dataset.view(6, "raw"), dataset.column("label")
    dataset.close()
    dataset.close()
    np.testing.assert_array_equal(view, samples[6][1])
    assert labels[6] == 3
    calls = [
        lambda: dataset[0],
        lambda: dataset[[0]],
        lambda: dataset.read_bytes([0], "raw"),
        lambda: dataset.view(0, "raw"),
        lambda: dataset.column("label"),
        lambda: dataset.image_facts("raw"),
        lambda: dataset.verify(),
        lambda: dataset.mapped,
        lambda: next(iter(dataset)),
        lambda: dataset.keys,
        lambda: dataset.table,
        lambda: dataset.class_names,
        lambda: dataset.metadata,
        lambda: dataset.tile_index,
        lambda: dataset.annex,
        lambda: dataset.has_checksums,
        lambda: dataset.fingerprint,
        lambda: dataset.page_numbers(),
        lambda: dataset.read_values(np.arange(1), "array"),
        lambda: dataset.read_arrays(np.arange(1), "array", np.empty),
        lambda: dataset.read_ragged(np.arange(1), "text"),
        lambda: dataset.image_spans(np.arange(1), "raw"),
        lambda: dataset.stored_samples([0]),
    ]
    for call in calls:
        with pytest.raises(ClosedError, match=r"x\.beton: the dataset is closed"):
            call()


@pytest.mark.parametrize("is_checked", [False, True])
def test_arrays_go_where_they_are_wanted(dataset: BetonDataset, samples: list[Any], is_checked: bool) -> None:
    memory: list[np.ndarray] = []

    def take(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
        memory.append(np.empty(shape, dtype))
        return memory[-1]

    indices = np.array([7, 0, 7, 10])
    opened = dataset.with_checksums(is_checked)
    found = opened.read_arrays(indices, "array", take)
    assert found is memory[0]
    assert len(memory) == 1
    expected = opened.read_values(indices, "array")
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)
    place = list(ALL_FIELDS).index("array")
    assert all(same_value(array, samples[i][place]) for array, i in zip(found, indices, strict=True))
    every_second = np.arange(8)[::2]
    np.testing.assert_array_equal(
        opened.read_arrays(every_second, "array", take), opened.read_values(every_second, "array")
    )
    for field in ("label", "text", "raw"):
        with pytest.raises(ValueError, match=f"field '{field}' has no arrays of one shape"):
            opened.read_arrays(indices, field, take)


def test_closed_while_others_read(samples_and_path: tuple[list[Any], Path]) -> None:
    path = samples_and_path[1]
    every = np.arange(COUNT)
    reads = [
        lambda dataset: [sample.label for sample in dataset[[1, 2]]],
        lambda dataset: dataset.read_bytes(every, "jpg"),
        lambda dataset: dataset.view(6, "raw").tolist(),
        lambda dataset: dataset.column("label").tolist(),
        lambda dataset: dataset.read_values(every, "array").tolist(),
        lambda dataset: dataset.read_ragged(every, "text").offsets.tolist(),
        lambda dataset: dataset.image_spans(every, "raw").checksums.tolist(),
        lambda dataset: dataset.page_numbers().tolist(),
        lambda dataset: (list(dataset.keys), dataset.class_names, dataset.metadata, dataset.fingerprint),
        lambda dataset: dataset.verify(workers=1).ok,
    ]
    with hr.open(path) as dataset:
        expected = [read(dataset) for read in reads]

    def read_until_closed(dataset: BetonDataset, number: int, started: threading.Barrier) -> int:
        started.wait()
        for count in itertools.count():
            try:
                assert reads[number](dataset) == expected[number]
            except ClosedError:
                return count
        raise AssertionError

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)  # let the threads meet in the middle of every method
    try:
        with ThreadPoolExecutor(len(reads)) as pool:
            for pause_s in np.linspace(0, 0.01, 10):
                dataset, started = hr.open(path), threading.Barrier(len(reads) + 1)
                results = [pool.submit(read_until_closed, dataset, i, started) for i in range(len(reads))]
                started.wait()
                time.sleep(pause_s)
                dataset.close()
                assert all(result.result() >= 0 for result in results)
    finally:
        sys.setswitchinterval(interval)


def mappings_of(path: Path) -> int:
    return Path("/proc/self/maps").read_text().count(str(path))


def test_close_lets_go_of_the_file(samples_and_path: tuple[list[Any], Path], tmp_path: Path) -> None:
    path = tmp_path / "copy.beton"
    path.write_bytes(samples_and_path[1].read_bytes())
    with hr.open(path) as dataset:
        assert len(dataset.keys or ()) == len(dataset[:]) == COUNT
        assert mappings_of(path) == 1
    assert mappings_of(path) == 0


def test_eight_threads(dataset: BetonDataset) -> None:
    expected = labels_of(dataset)
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(labels_of, [dataset] * 16)) == [expected] * 16


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_other_processes(dataset: BetonDataset, method: str) -> None:
    context = multiprocessing.get_context(method)
    with ProcessPoolExecutor(2 if method == "fork" else 1, mp_context=context) as pool:
        found = list(pool.map(labels_of, [dataset] * 3))
    assert found == [labels_of(dataset)] * 3


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_uses_the_dataset_it_inherited(dataset: BetonDataset) -> None:
    expected = dataset.read_bytes(range(COUNT), "jpg")
    child = os.fork()
    if child == 0:
        os._exit(0 if dataset.read_bytes(range(COUNT), "jpg") == expected else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_found_by_content_when_the_name_says_nothing(samples_and_path: tuple[list[Any], Path], tmp_path: Path) -> None:
    path = tmp_path / "dataset.bin"
    path.write_bytes(samples_and_path[1].read_bytes())
    assert len(hr.open(path)) == COUNT
    assert len(hr.open(path, format="beton")) == COUNT


def test_custom_fields_say_how_to_read_type_255(golden_dir: Path) -> None:
    path = golden_dir / "custom.beton"
    name = next(iter(hr.open(path).schema))
    with hr.open(path, custom_fields={name: hr.NDArray("|S1", (24,))}) as dataset:
        assert b"".join(dataset[2][name].tolist()) == b"hello 2"
        assert dataset.verify(decode=True).ok
    with pytest.raises(ValueError, match="does not have: nothing"):
        hr.open(path, custom_fields={"nothing": hr.Int()})


SAMPLES = 10_000_000


@pytest.fixture
def ten_million(tmp_path: Path) -> Path:
    """Two numbers a sample, all zero, in a file full of holes."""
    path = tmp_path / "big.beton"
    end = 24 + 2 * 1041 + SAMPLES * 16
    with path.open("wb") as file:
        file.write(struct.pack("<HHIQQ", 2, 2, 8 * MIB, SAMPLES, end))
        for type_id, name in ((1, b"label"), (0, b"score")):
            file.write(bytes([type_id]) + name.ljust(16, b"\0") + bytes(1024))
        file.truncate(end)
    return path


def test_ten_million_samples_open_at_once(ten_million: Path) -> None:
    tracemalloc.start()
    start_s = time.perf_counter()
    try:
        dataset = hr.open(ten_million)
        assert len(dataset) == SAMPLES
        assert tuple(dataset[SAMPLES - 1]) == (0, 0.0)
        assert len(dataset[5:10_000_000:3_000_000]) == 4
        assert dataset.column("label")[123_456] == 0
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert time.perf_counter() - start_s < 1
    assert peak < 4 * MIB
