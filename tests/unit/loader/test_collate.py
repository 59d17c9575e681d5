from __future__ import annotations

import itertools
import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.unit.loader.tools import CROP

import headrace as hr
from headrace import Loader, ops
from headrace.loader.collate import collate
from headrace.types import Padded, Ragged

if TYPE_CHECKING:
    from pathlib import Path

BLOBS = [b"", b"a", bytes(range(1, 256)), b"\0\0", b"xyz", b"", b"k" * 90, b"end"]
TEXTS = ["", "ä", "three", "四", "a longer text of some words", "x", "\0", "last"]
JSONS = [None, [], {"a": [1, 2.5]}, "ü", 7, True, [{}], "x"]
ARRAYS = [np.arange(i * 2, dtype=np.float32).reshape(i, 2) for i in (3, 0, 1, 5, 2, 2, 4, 1)]
FIELDS = {"blob": hr.Bytes(), "text": hr.Text(), "json": hr.Json()}


@pytest.fixture(scope="module")
def ragged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("ragged") / "ragged.beton"
    hr.write(path, list(zip(BLOBS, TEXTS, JSONS, strict=True)), fields=FIELDS)
    return path


def as_bytes(name: str) -> list[bytes]:
    """What the values of a field are as bytes in an array."""
    if name == "text":
        return [text.encode() for text in TEXTS]
    return BLOBS if name == "blob" else [json.dumps(value, ensure_ascii=False).encode() for value in JSONS]


@pytest.mark.parametrize("options", [{}, {"collate": "list"}, {"collate": {"blob": "list"}}])
def test_lists_are_the_default(ragged: Path, options: Any) -> None:
    batches = list(Loader(ragged, 4, **options))
    assert [value for batch in batches for value in batch.blob] == BLOBS
    assert [value for batch in batches for value in batch.text] == TEXTS
    assert [value for batch in batches for value in batch.json] == JSONS


@pytest.mark.parametrize("name", FIELDS)
@pytest.mark.parametrize("cache", ["os", "8MB"])
def test_padded_values_end_with_zeros_and_nothing_else(ragged: Path, name: str, cache: str) -> None:
    expected = as_bytes(name)
    for start, batch in zip((0, 4), Loader(ragged, 4, collate="pad", cache=cache), strict=True):
        padded = batch[name]
        assert isinstance(padded, Padded)
        values, lengths = padded
        wanted = expected[start : start + 4]
        assert lengths.tolist() == [len(value) for value in wanted]
        assert values.dtype == np.uint8
        assert values.shape == (4, max(map(len, wanted)))
        for row, value in zip(values, wanted, strict=True):
            assert row.tobytes() == value + bytes(len(row) - len(value))


@pytest.mark.parametrize("name", FIELDS)
@pytest.mark.parametrize("cache", ["os", "8MB"])
def test_offsets_give_back_every_value(ragged: Path, name: str, cache: str) -> None:
    expected = as_bytes(name)
    for start, batch in zip((0, 4), Loader(ragged, 4, collate="offsets", cache=cache), strict=True):
        joined = batch[name]
        assert isinstance(joined, Ragged)
        values, offsets = joined
        found = [values[a:b].tobytes() for a, b in itertools.pairwise(offsets)]
        assert found == expected[start : start + 4]
        assert (offsets[0], offsets[-1]) == (0, len(values))


def test_every_output_has_its_own_way(ragged: Path) -> None:
    (batch,) = Loader(ragged, 8, collate={"blob": "pad", "json": "offsets"})
    assert isinstance(batch.blob, Padded)
    assert isinstance(batch.json, Ragged)
    assert batch.text == TEXTS


def test_no_garbage_when_memory_is_used_again(ragged: Path) -> None:
    loader = Loader(ragged, 2, order="random", collate="pad")
    for _ in range(20):
        for batch in loader:
            for values, lengths in batch:
                for row, length in zip(values, lengths, strict=True):
                    assert not row[length:].any()


def test_numbers_and_pictures_are_arrays_whatever_is_chosen(path: Path) -> None:
    batch = next(iter(Loader(path, 4, collate="pad", pipelines={"image": CROP})))
    assert batch.image.shape == (4, 16, 16, 3)
    assert batch.label.tolist() == [0, 1, 2, 3]
    assert batch.array.shape == (4, 2, 3)


# -- what a function gives ------------------------------------------------------------------------------------------


def arrays_of(blobs: list[bytes]) -> list[np.ndarray]:
    return [ARRAYS[BLOBS.index(blob)] for blob in blobs]


def test_arrays_of_a_function_are_padded_on_every_axis(ragged: Path) -> None:
    pipelines: dict[str, Any] = {"blob": [ops.Apply(arrays_of)], "text": None, "json": None}
    (batch,) = Loader(ragged, 8, pipelines=pipelines, collate={"blob": "pad"})
    values, lengths = batch.blob
    assert values.shape == (8, 5, 2)
    assert values.dtype == np.float32
    expected = [ARRAYS[BLOBS.index(blob)] for blob in BLOBS]
    assert lengths.tolist() == [list(array.shape) for array in expected]
    for row, array in zip(values, expected, strict=True):
        np.testing.assert_array_equal(row[: len(array)], array)
        assert not row[len(array) :].any()


def test_arrays_of_a_function_are_joined_on_the_first_axis(ragged: Path) -> None:
    pipelines: dict[str, Any] = {"blob": [ops.Apply(arrays_of)], "text": None, "json": None}
    (batch,) = Loader(ragged, 8, pipelines=pipelines, collate={"blob": "offsets"})
    expected = [ARRAYS[BLOBS.index(blob)] for blob in BLOBS]
    np.testing.assert_array_equal(batch.blob.values, np.concatenate(expected))
    assert np.diff(batch.blob.offsets).tolist() == [len(array) for array in expected]


def test_what_a_function_gives_stays_as_it_is_when_it_is_not_named(ragged: Path) -> None:
    pipelines: dict[str, Any] = {"blob": [ops.Apply(arrays_of)]}
    (batch,) = Loader(ragged, 8, pipelines=pipelines, collate="pad")
    assert [array.shape for array in batch.blob] == [ARRAYS[BLOBS.index(blob)].shape for blob in BLOBS]


# -- the function itself --------------------------------------------------------------------------------------------


def test_arrays_of_several_axes_are_padded_to_the_largest_of_each() -> None:
    values, lengths = collate([np.ones((2, 3)), np.ones((4, 1)), np.ones((0, 5))], "pad")
    assert values.shape == (3, 4, 5)
    assert lengths.tolist() == [[2, 3], [4, 1], [0, 5]]
    assert values.sum(axis=(1, 2)).tolist() == [6, 4, 0]


@pytest.mark.parametrize("kind", ["pad", "offsets"])
def test_nothing_collates_to_nothing(kind: Any) -> None:
    first, second = collate([], kind)
    assert (len(first), len(second)) == ((0, 0) if kind == "pad" else (0, 1))


@pytest.mark.parametrize(
    ("values", "kind", "message"),
    [
        ([np.ones(2), np.ones(2, int)], "pad", "padded must have one dtype .*, found float64 with 1 axes, int64 with"),
        ([np.ones(2), np.ones((2, 2))], "offsets", "joined must have one dtype and number of axes"),
        ([np.ones((2, 3)), np.ones((2, 4))], "offsets", r"only their first axes differ, .* \[\(2, 3\), \(2, 4\)\]"),
        ([np.array(1), np.array(2)], "pad", "must be arrays, text, bytes or JSON, found single numbers"),
        (np.arange(3), "offsets", "must be arrays, text, bytes or JSON, found single numbers"),
    ],
)
def test_values_that_do_not_go_together(values: Any, kind: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        collate(values, kind)
