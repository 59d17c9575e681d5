"""How the data of a file get into memory."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace.compat.ffcv.pipeline.compiler import Compiler
from headrace.compat.ffcv.storage import StorageState, read_span
from headrace.compat.passed_on import pass_on
from headrace.errors import FormatError

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.compat.ffcv.reader import Reader
    from headrace.types import Source

__all__ = ["MemoryContext", "MemoryManager"]
pass_on(
    globals(),
    "ABC ABCMeta AbstractContextManager Callable Compiler Mapping Reader Sequence Set abstractmethod defaultdict "
    "np types",
    Dict="numba.typed.Dict",
)


class MemoryContext(ABC):
    """The memory of one epoch."""

    @property
    @abstractmethod
    def state(self) -> Any:
        """What functions that read are given."""
        raise NotImplementedError

    @abstractmethod
    def __enter__(self) -> Any:
        raise NotImplementedError

    def start_batch(self, batch: int) -> None:
        """A batch is about to be read."""

    def source_of(self, batch: int) -> AbstractContextManager[Source | None]:
        """Where headrace's own decoders find the bytes of a batch; None is the mapped file."""
        return nullcontext(None)

    @abstractmethod
    def __exit__(self, *exc_info: object) -> None:
        raise NotImplementedError


class MemoryManager(ABC):
    """Knows where allocations are, and makes the memory of each epoch."""

    def __init__(self, reader: Reader) -> None:
        self.reader = reader
        table = reader.alloc_table
        order = np.lexsort((table["size"], table["ptr"]))
        self.ptrs = np.ascontiguousarray(table["ptr"][order])
        self.sizes = np.ascontiguousarray(table["size"][order])

    @property
    def state(self) -> StorageState:
        """The mapped file and the sorted table."""
        return self.reader.mapped, self.ptrs, self.sizes

    @cached_property
    def page_to_samples(self) -> dict[int, set[int]]:
        """Which samples have data on a page."""
        return self._relation[0]

    @cached_property
    def sample_to_pages(self) -> dict[int, set[int]]:
        """Which pages the data of a sample are on."""
        return self._relation[1]

    @cached_property
    def _relation(self) -> tuple[dict[int, set[int]], dict[int, set[int]]]:
        samples: dict[int, set[int]] = defaultdict(set)
        pages: dict[int, set[int]] = defaultdict(set)
        table = self.reader.alloc_table
        if len(self.ptrs) and int(self.ptrs[-1]) > len(self.reader.mapped):
            raise FormatError(
                self.reader.file_name,
                problem=f"the allocation table points to byte {self.ptrs[-1]} of {len(self.reader.mapped)}",
                fix="Restore the file from a copy, or use OrderOption.RANDOM, which does not need the table.",
            )
        numbers = table["ptr"] // np.uint64(self.reader.page_size)
        for sample, page in zip(table["sample_id"].tolist(), numbers.tolist(), strict=True):
            samples[page].add(sample)
            pages[sample].add(page)
        return samples, pages

    @cached_property
    def ptr_to_size(self) -> dict[int, int]:
        """Size of the allocation at each pointer."""
        return dict(zip(self.ptrs.tolist(), self.sizes.tolist(), strict=True))

    @abstractmethod
    def schedule_epoch(self, batches: Any) -> MemoryContext:
        """The memory of an epoch with these batches of samples."""
        raise NotImplementedError

    def compile_reader(self) -> Callable[..., Any]:
        """A function of (pointer, state) that gives the bytes of an allocation."""
        return Compiler.compile(read_span)
