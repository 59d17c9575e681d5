"""The pages of one epoch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np

from headrace.compat.ffcv.memory_managers.base import MemoryContext
from headrace.compat.passed_on import pass_on

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from headrace.compat.ffcv.memory_managers.process_cache.manager import ProcessCacheManager
    from headrace.read import PageWalk
    from headrace.types import IndexArray, Source

__all__ = ["ProcessCacheContext"]
pass_on(globals(), "BATCHES_TYPE MemoryContext MemoryManager defaultdict np")


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
