"""The pages of a file, and the memory that holds some of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from headrace._native import RangeReader
from headrace.compat.ffcv.memory_managers.base import MemoryManager
from headrace.compat.ffcv.memory_managers.process_cache.context import ProcessCacheContext
from headrace.compat.passed_on import pass_on
from headrace.read import PageCache, RangeSource
from headrace.storage import available_bytes

if TYPE_CHECKING:
    from headrace.compat.ffcv.memory_managers.base import MemoryContext

__all__ = ["ProcessCacheManager"]
pass_on(globals(), "BATCHES_TYPE Compiler MemoryContext MemoryManager ProcessCacheContext nb np")

_LARGEST_BYTES = 4 << 30


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
