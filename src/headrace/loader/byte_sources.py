"""How the bytes of a dataset get into memory: mapped, or read ahead of use.

A file that fits into memory is mapped, and the system caches it. A larger one would be read in small pieces as it is
touched; then whole pages are read ahead where the order keeps to pages, and the spans of a batch at once where it
does not. What lies in a store is brought ahead of use, see ``streaming``.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

from headrace import _native
from headrace.loader.slots import SlotPool
from headrace.loader.streaming import AHEAD_BYTES, Streaming
from headrace.progress import format_bytes
from headrace.read import PageCache, RangeSource
from headrace.storage import RemotePath, allocate_pages, available_bytes, shown_url
from headrace.types import Source

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from headrace.loader.options import LoaderOptions
    from headrace.loader.streaming import ComingSteps
    from headrace.types import Dataset, IndexArray

__all__ = ["ByteSources", "SourceOf"]

SourceOf: TypeAlias = Callable[[int], AbstractContextManager[Source | None]]

_SHARE_OF_MEMORY = 0.7  # a file above this share of the free memory is not left to the system's cache
_LARGEST_DEFAULT = 4 << 30
_SPARE_PAGES = 8  # beyond those an order keeps open


class ByteSources:
    """Gives the source of the bytes of each step.

    Args:
        dataset: what is read.
        options: of the loader.
        allocate: makes memory for what is read; for a GPU it is pinned.
    """

    def __init__(
        self,
        dataset: Dataset,
        options: LoaderOptions,
        allocate: Callable[[int], npt.NDArray[np.uint8]] = allocate_pages,
    ) -> None:
        self._dataset = dataset
        self._allocate = allocate
        self._slots = SlotPool(options.bounds().most_ahead + 2, allocate)
        self.ahead_bytes = options.cache_bytes or AHEAD_BYTES
        self.budget_bytes = self._choose_budget(options)
        if self.budget_bytes is not None:
            _ = self._reader  # opened now: later another file may have the name

    def _choose_budget(self, options: LoaderOptions) -> int | None:
        page_size, named = self._dataset.page_size, options.cache_bytes
        if not self._dataset.is_local:
            return None
        if page_size is None:
            if named is not None:
                raise ValueError(f"cache={options.cache!r}, but {self._dataset.path} has no pages to read ahead")
            return None
        if named is not None:
            return named
        available = available_bytes()
        if options.cache == "os" or os.path.getsize(self._dataset.path) <= _SHARE_OF_MEMORY * available:
            return None
        pages = -(-options.pool // options.place[1])  # of this rank
        return max(min(available // 4, _LARGEST_DEFAULT), (pages + _SPARE_PAGES) * page_size)

    def describe(self) -> str:
        """Say in words where the bytes come from."""
        if not self._dataset.is_local:
            return f"bytes: {describe_store(self._dataset.path)}, ahead by up to {format_bytes(self.ahead_bytes)}"
        if self.budget_bytes is None:
            return f"bytes: {self._dataset.reading}"
        return f"bytes: read ahead into {self.budget_bytes / 2**20:,.0f} MiB, by {self._reader.engine}"

    @cached_property
    def _reader(self) -> _native.RangeReader:
        return _native.RangeReader(self._dataset.path, direct=True)

    @cached_property
    def _ranges(self) -> RangeSource:
        return RangeSource(self._dataset.path, self._reader, self._take)

    def _take(self, shape: tuple[int, ...], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        # Spans of every batch have another size; powers of two are few, and their slots can be used again.
        (size,) = shape
        return self._slots.take((1 << (size - 1).bit_length(),), dtype)[:size]

    @cached_property
    def _cache(self) -> PageCache:
        page_size = self._dataset.page_size
        assert page_size is not None
        assert self.budget_bytes is not None
        return PageCache(
            self._dataset.path,
            self._reader,
            page_size=page_size,
            size_bytes=self.budget_bytes,
            file_size=self._reader.size,
            fallback=self._ranges,
            allocate=self._allocate,
        )

    def single(self) -> SourceOf:
        """For steps in any order."""
        source = None if self.budget_bytes is None else self._ranges
        return lambda step: contextlib.nullcontext(source)

    def sources(
        self,
        pages_of: Callable[[int], IndexArray] | None,
        first: int,
        last: int,
        stack: contextlib.ExitStack,
    ) -> SourceOf:
        """For the steps of an epoch in ascending order; what has to be closed at its end goes on the stack."""
        if self.budget_bytes is None or pages_of is None or first >= last:
            return self.single()
        return stack.enter_context(self._cache.walk(pages_of, first, last)).step

    def stream(self, coming: ComingSteps, first: int, last: int) -> Streaming:
        """Begin to bring what the steps of an epoch read from a store."""
        return Streaming(coming, first, last, self.ahead_bytes)


def describe_store(path: str) -> str:
    """Say in words where the bytes of a remote dataset come from."""
    folder = path.storage.cache_dir if isinstance(path, RemotePath) else None
    return f"from {shown_url(path)}, {'no cache' if folder is None else f'cache: {folder}'}"
