"""decode(encode(x)) == x, over random schemas, values, orders and page sizes."""

from __future__ import annotations

import json
import math
import struct
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.helpers import MIB, Indexable

import headrace as hr

settings.register_profile(
    "headrace", deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
settings.load_profile("headrace")

DTYPES = ["|b1", "|u1", "<i2", ">i4", "<i8", "<f2", ">f4", "<f8", "<c8"]
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
NAMES = st.text(
    st.characters(min_codepoint=33, max_codepoint=126, exclude_characters="/"), min_size=1, max_size=16
).filter(lambda name: name not in (".", ".."))


def arrays(dtype: str, shape: tuple[int, ...]) -> st.SearchStrategy[np.ndarray]:
    """Any bits at all, NaN included."""
    size = np.dtype(dtype).itemsize * math.prod(shape)

    def build(data: bytes) -> np.ndarray:
        raw = np.frombuffer(data, np.uint8)
        return ((raw & 1).view(dtype) if dtype == "|b1" else raw.view(dtype)).reshape(shape)

    return st.binary(min_size=size, max_size=size).map(build)


@st.composite
def array_fields(draw: st.DrawFn) -> tuple[Any, st.SearchStrategy[Any]]:
    dtype = draw(st.sampled_from(DTYPES))
    shape = tuple(draw(st.lists(st.integers(1, 3), min_size=1, max_size=3)))
    cls = draw(st.sampled_from([hr.NDArray, hr.Tensor]))
    return cls(dtype, shape), arrays(dtype, shape)


PICTURES = st.tuples(st.integers(1, 9), st.integers(1, 9)).flatmap(lambda s: arrays("|u1", (*s, 3)))
FIELDS = st.one_of(
    st.just((hr.Int(), st.integers(-(2**63), 2**63 - 1))),
    st.just((hr.Float(), st.binary(min_size=8, max_size=8).map(lambda b: struct.unpack("<d", b)[0]))),
    st.just((hr.Bytes(), st.binary(max_size=200))),
    st.just((hr.Text(), st.text(max_size=50))),
    st.just((hr.Json(), JSON_VALUES)),
    st.just((hr.Image(mode="raw"), PICTURES)),
    array_fields(),
)


@st.composite
def datasets(draw: st.DrawFn) -> tuple[dict[str, Any], list[tuple[Any, ...]]]:
    names = draw(st.lists(NAMES, min_size=1, max_size=6, unique=True))
    kinds = [draw(FIELDS) for _ in names]
    fields = {name: field for name, (field, _) in zip(names, kinds, strict=True)}
    samples = draw(st.lists(st.tuples(*(values for _, values in kinds)), min_size=1, max_size=12))
    return fields, samples


def bits(value: Any) -> Any:
    """Something that is equal exactly when two values are the same to the bit."""
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    if isinstance(value, float):
        return struct.pack("<d", value)
    return json.dumps(value) if isinstance(value, dict | list) else (type(value), value)


def assert_same(found: Any, given: Any) -> None:
    assert [[bits(v) for v in sample] for sample in found] == [[bits(v) for v in sample] for sample in given]


@given(datasets(), st.booleans(), st.sampled_from([0, 1, 3]), st.booleans())
def test_what_is_written_is_read(data: Any, annex: bool, workers: int, is_stream: bool) -> None:
    fields, samples = data
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "x.beton")
        source = iter(samples) if is_stream else samples
        hr.write(path, source, fields=fields, annex=annex, workers=workers, page_size=2 * MIB, worker_kind="thread")
        dataset = hr.open(path)
        assert list(dataset.schema) == list(fields)
        if annex:
            assert dict(dataset.schema) == fields
        if not annex:  # a plain .beton does not tell Text from Bytes
            kinds = [field.kind for field in fields.values()]
            samples = [tuple(v.encode() if k == "text" else v for k, v in zip(kinds, s, strict=True)) for s in samples]
        assert_same(dataset, samples)
        assert dataset.verify(decode=True).ok


@given(datasets(), st.data())
def test_the_reader_never_mixes_samples(data: Any, draw: st.DataObject) -> None:
    fields, samples = data
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "x.beton")
        hr.write(path, samples, fields=fields, page_size=2 * MIB)
        dataset = hr.open(path)
        count = len(samples)
        indices = draw.draw(st.lists(st.integers(-count, count - 1), max_size=20))
        assert_same(dataset[indices], [samples[i] for i in indices])
        cut = draw.draw(st.slices(count))
        assert_same(dataset[cut], samples[cut])
        for column in dataset.layout.payload_columns:
            one_by_one = [dataset.read_bytes([i], column.name)[0] for i in indices]
            assert dataset.read_bytes(indices, column.name) == one_by_one


@given(datasets(), st.data())
def test_indices_choose_and_order(data: Any, draw: st.DataObject) -> None:
    fields, samples = data
    count = len(samples)
    indices = draw.draw(st.lists(st.integers(-count, count - 1), min_size=1, max_size=20))
    names = [f"n{i}" for i in range(count)]
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "x.beton")
        source = Indexable(samples)
        hr.write(path, source, fields=fields, indices=indices, names=names, worker_kind="thread", page_size=2 * MIB)
        assert_same(hr.open(path), [samples[i] for i in indices])
        assert list(hr.open(path).keys or ()) == [names[i] for i in indices]


@given(st.lists(st.integers(0, 700_000), min_size=1, max_size=14), st.sampled_from([1, 2, 3]))
@settings(max_examples=15)
def test_sizes_around_the_page(sizes: list[int], slots: int) -> None:
    """Three of these fill a 2 MiB page, so that breaks fall everywhere."""
    fields = {f"b{k}": hr.Bytes() for k in range(slots)}
    samples = [
        tuple(bytes([(i + k) % 256]) * ((size + 77 * k) % 700_000) for k in range(slots))
        for i, size in enumerate(sizes)
    ]
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "x.beton")
        hr.write(path, samples, fields=fields, page_size=2 * MIB)
        dataset = hr.open(path)
        assert [tuple(s) for s in dataset] == samples
        pages = dataset.table[:, 1].reshape(-1, slots) // (2 * MIB)
        assert (pages == pages[:, :1]).all()
        assert dataset.verify().ok


@given(st.integers(1, 60), st.integers(1, 60), st.integers(1, 80), st.sampled_from(["raw", "jpg"]))
@settings(max_examples=40)
def test_pictures_keep_their_size(height: int, width: int, max_side: int, mode: Any) -> None:
    field = hr.Image(mode=mode, max_side=max_side)
    encoded = field.encode(np.full((height, width, 3), 200, np.uint8), 0)
    found = field.decode(encoded.facts, memoryview(encoded.payload or b""))
    assert (found.shape[1], found.shape[0]) == field.stored_size(width, height)
    assert max(found.shape[:2]) <= max(max_side, 1)
    assert np.abs(found.astype(int) - 200).max() <= 2
