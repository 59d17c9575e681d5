"""All samples of a dataset in order, where its bytes must be fetched: many at a time, and the next ones meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from headrace.errors import CorruptSampleError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.formats.contract import BaseDataset
    from headrace.types import Announcement, IndexArray, Sample

__all__ = ["samples_ahead"]

_FEWEST, _FIRST, _MOST = 1, 16, 512
_ENOUGH_BYTES = 16 << 20  # to fetch at a time


def samples_ahead(dataset: BaseDataset) -> Iterator[Sample]:
    """The samples; of a damaged dataset those before the first bad one come first."""
    ahead: tuple[IndexArray, Announcement | None] | None = None
    try:
        ahead = _announce(dataset, 0, _FIRST)
        while ahead is not None:
            chunk, announced = ahead
            ahead = _announce(dataset, int(chunk[-1]) + 1, _fitting(len(chunk), announced))
            try:
                samples = _samples(dataset, chunk)
            finally:
                if announced is not None:
                    announced.close()
            yield from samples
    finally:
        if ahead is not None and ahead[1] is not None:
            ahead[1].close()


def _announce(dataset: BaseDataset, start: int, count: int) -> tuple[IndexArray, Announcement | None] | None:
    chunk = np.arange(start, min(start + count, len(dataset)), dtype=np.int64)
    return (chunk, dataset._announce_values(chunk, tuple(dataset.schema))) if len(chunk) else None


def _fitting(count: int, announced: Announcement | None) -> int:
    """How many samples to fetch next, by how much the last ones were."""
    size_bytes = 0 if announced is None else announced.size_bytes
    return max(_FEWEST, count // 2) if size_bytes > 2 * _ENOUGH_BYTES else min(_MOST, 2 * count)


def _samples(dataset: BaseDataset, chunk: IndexArray) -> Iterator[Sample]:
    try:
        return iter(dataset._samples(chunk))
    except CorruptSampleError:
        return (dataset[i] for i in chunk.tolist())
