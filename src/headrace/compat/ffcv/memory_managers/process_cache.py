"""Pages read ahead into memory of the process, for files that do not fit into memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np

from headrace._native import RangeReader
from headrace.compat.ffcv.memory_managers.base import MemoryContext, MemoryManager
from headrace.read import PageCache, RangeSource
from headrace.storage import available_bytes

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from headrace.read import PageWalk
    from headrace.types import IndexArray, Source

__all__ = ["ProcessCacheContext", "ProcessCacheManager"]

_LARGEST_BYTES = 4 << 30


class ProcessCacheContext(MemoryContext):
    """The pages of one epoch, read in the order in which its batches need them."""

    def __init__(self, manager: ProcessCacheManager, batches: Any) -> None:
        self.manager = manager
        self.batches = [np.asarray(batch, np.int64) for batch in batches]
        self._walk: PageWalk | None = None

    @property
    def state(self) -> Any:
        """For functions that read by themselves: the mapped file and the sorted table."""
        return self.manager.state

    def _pages_of(self, batch: int) -> IndexArray:
        pages = self.manager.first_pages[self.batches[batch]]
        return pages[pages >= 0]

    def __enter__(self) -> Self:
        self._walk = self.manager.cache.walk(self._pages_of, 0, len(self.batches))
        return self

    def source_of(self, batch: int) -> AbstractContextManager[Source | None]:
        """The pages of a batch."""
        assert self._walk is not None
        return self._walk.step(batch)

    def __exit__(self, *exc_info: object) -> None:
        if self._walk is not None:
            self._walk.close()


class ProcessCacheManager(MemoryManager):
    """Reads whole pages ahead of use into a cache of bounded size."""

    def __init__(self, reader: Any) -> None:
        super().__init__(reader)
        table = reader.alloc_table
        pages = np.full(reader.num_samples, -1, np.int64)
        inside = table["sample_id"] < reader.num_samples
        samples = table["sample_id"][inside].astype(np.int64)
        pages[samples] = (table["ptr"][inside] // np.uint64(reader.page_size)).astype(np.int64)
        self.first_pages = pages
        ranges = RangeReader(reader.file_name, direct=True)
        self.cache = PageCache(
            reader.file_name,
            ranges,
            page_size=reader.page_size,
            size_bytes=min(_LARGEST_BYTES, available_bytes() // 4),
            file_size=ranges.size,
            fallback=RangeSource(reader.file_name, ranges, np.empty),
        )

    def schedule_epoch(self, batches: Any) -> MemoryContext:
        """The pages that these batches need."""
        return ProcessCacheContext(self, batches)
