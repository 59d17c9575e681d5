"""The mapped file: the system caches it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from headrace.compat.ffcv.memory_managers.base import MemoryContext, MemoryManager
from headrace.compat.passed_on import pass_on

if TYPE_CHECKING:
    from headrace.compat.ffcv.reader import Reader

__all__ = ["OSCacheContext", "OSCacheManager"]
pass_on(globals(), "Compiler MemoryContext MemoryManager TYPE_CHECKING nb np")


class OSCacheContext(MemoryContext):
    """The mapped file, the same in every epoch."""

    def __init__(self, manager: MemoryManager) -> None:
        self.manager = manager

    @property
    def state(self) -> Any:
        """The mapped file and the sorted table."""
        return self.manager.state

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        pass


class OSCacheManager(MemoryManager):
    """For files that fit into memory."""

    def __init__(self, reader: Reader) -> None:
        super().__init__(reader)
        self.context = OSCacheContext(self)

    def schedule_epoch(self, batches: Any) -> MemoryContext:
        """The mapped file."""
        return self.context
