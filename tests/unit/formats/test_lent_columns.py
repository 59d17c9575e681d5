"""Samples as columns: stored as they are, and to the byte what they are sample by sample."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from headrace import Bytes, Image, Int, Text
from headrace.codecs import jpeg
from headrace.fields import JPG
from headrace.formats.beton.encoder import ChunkEncoder
from headrace.formats.beton.layout import columns_for
from headrace.formats.ffr.dataset_writer import FfrEncoder
from headrace.formats.lent_columns import LentColumns, Spans

JPEGS = [jpeg.encode(np.full((8 + i, 16, 3), 40 * i, np.uint8), quality=90) for i in range(3)]


def spans_of(values: list[bytes]) -> tuple[memoryview, Spans]:
    """Values with gaps between them, as the files of a tar have."""
    memory = b"".join(value + b"\xff\xd9gap" for value in values)
    sizes = np.array([len(value) for value in values], np.uint64)
    return memoryview(memory), Spans(np.cumsum(sizes + np.uint64(5)) - sizes - np.uint64(5), sizes)


def columns_of(values: list[bytes], *more: Any) -> LentColumns:
    memory, spans = spans_of(values)
    return LentColumns(memory, [spans, *more])


def same(encoder: ChunkEncoder, columns: LentColumns) -> bool:
    """Both ways give the same chunk, and the quick one was taken where it is possible."""
    quick, slow = (encoder(samples, first_index=5) for samples in (columns, iter(columns)))
    assert quick.records == slow.records
    assert [bytes(data) for data in quick.payloads] == [bytes(data) for data in slow.payloads]
    assert quick.sizes.tolist() == slow.sizes.tolist()
    assert quick.checksums.tolist() == slow.checksums.tolist()
    assert quick.tile_indices == slow.tile_indices
    return encoder._pass_on(columns, 5) is not None


def test_samples_one_by_one() -> None:
    columns = columns_of([b"ab", b"", b"c"], np.array([7, 8, 9]))
    assert len(columns) == 3
    assert [(bytes(data), number) for data, number in columns] == [(b"ab", 7), (b"", 8), (b"c", 9)]


@pytest.mark.parametrize("is_indexing", [False, True])
def test_pictures_and_numbers(is_indexing: bool) -> None:
    encoder = ChunkEncoder(columns_for({"image": Image(), "label": Int()}), is_indexing=is_indexing)
    columns = columns_of(JPEGS, np.array([-1, 0, 2**40]))
    assert same(encoder, columns)
    records = np.frombuffer(encoder(columns, first_index=0).records, encoder_dtype(encoder))
    assert records["f0"]["mode"].tolist() == [JPG] * 3
    assert records["f0"]["height"].tolist() == [8, 9, 10]
    assert records["f1"].tolist() == [-1, 0, 2**40]


def encoder_dtype(encoder: ChunkEncoder) -> np.dtype[Any]:
    from headrace.formats.beton.columns import record_dtype

    return record_dtype(encoder.columns)


def test_several_columns_of_bytes() -> None:
    memory, spans = spans_of([b"a", b"bb", b"ccc", b"", b"ee", b"f"])
    halves = [Spans(spans.offsets[part], spans.sizes[part]) for part in (slice(3), slice(3, 6))]
    encoder = ChunkEncoder(columns_for({"x": Bytes(), "y": Bytes()}), is_indexing=False)
    assert same(encoder, LentColumns(memory, list(halves)))


def test_only_numbers() -> None:
    encoder = ChunkEncoder(columns_for({"label": Int()}), is_indexing=False)
    assert same(encoder, LentColumns(memoryview(b""), [np.array([3, 4])]))


@pytest.mark.parametrize(
    ("field", "is_passed_on"),
    [(Image(max_side=16), True), (Image(max_side=15), False), (Image(mode="raw"), False), (Image(mode="smart"), False)],
)
def test_pictures_that_are_changed(field: Image, is_passed_on: bool) -> None:
    encoder = ChunkEncoder(columns_for({"image": field}), is_indexing=False)
    columns = columns_of(JPEGS)
    assert (encoder._pass_on(columns, 0) is not None) == is_passed_on
    quick, slow = encoder(columns, first_index=0), encoder([(bytes(data),) for (data,) in columns], first_index=0)
    assert quick.records == slow.records
    assert quick.checksums.tolist() == slow.checksums.tolist()


@pytest.mark.parametrize("other", [JPEGS[0][:-2], JPEGS[0] + b"\0", b"", b"\xff", b"no picture"])
def test_a_picture_that_is_odd_takes_the_other_way(other: bytes) -> None:
    encoder = ChunkEncoder(columns_for({"image": Image()}), is_indexing=False)
    assert encoder._pass_on(columns_of([JPEGS[1], other]), 0) is None


def test_text_takes_the_other_way() -> None:
    encoder = ChunkEncoder(columns_for({"text": Text()}), is_indexing=False)
    assert encoder._pass_on(columns_of([b"a"]), 0) is None


def test_ffr() -> None:
    columns = columns_of([b"ab", b"", b"c"])
    chunk = FfrEncoder("data", Bytes())(columns, first_index=0)
    assert [bytes(sample) for sample in chunk.samples] == [b"ab", b"", b"c"]
    assert chunk.sizes.tolist() == [[2], [0], [1]]
