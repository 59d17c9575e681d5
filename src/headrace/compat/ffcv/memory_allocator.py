"""Pages of a new file, filled one allocation after the other.

Contract. Every process (or thread) that writes has an allocator of its own, made by ``fork`` or ``for_worker``; they
share the file and the number of the next free page, and nothing else. A page belongs to the allocator that took it.
"""

from __future__ import annotations

import copy
import ctypes
import os
from multiprocessing import Value
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from headrace.compat.ffcv.utils import align_to_page
from headrace.compat.passed_on import pass_on

if TYPE_CHECKING:
    from headrace.storage import AtomicFile

__all__ = ["MemoryAllocator"]
pass_on(globals(), "SEEK_END Value align_to_page ctypes np sleep")


class MemoryAllocator:
    """Gives out memory of the current page; all of a sample lies on one page.

    ``malloc`` raises MemoryError when the sample has to be encoded again, on the fresh page that it has taken by then.

    Args:
        fname: the file, which must begin before ``offset_start``; opened by the ``with`` block.
        offset_start: the first page begins here or at the next multiple of the page size.
        page_size: a power of two.
    """

    def __init__(self, fname: Any, offset_start: int, page_size: int) -> None:
        self.fname = fname
        self.offset = align_to_page(offset_start, page_size)
        self.page_size = page_size
        self.next_page_allocated: Any = Value(ctypes.c_uint64, 0)
        self.file: AtomicFile | _PlainFile | None = None
        self._begin()

    def _begin(self) -> None:
        self.page_offset = 0
        self.my_page = -1
        self.page_data = np.zeros(self.page_size, "<u1")
        self.allocations: list[tuple[int, int, int]] = []
        self.current_sample_id = -1
        self._written = 0  # bytes of the page that are in the file

    def for_worker(self, file: AtomicFile) -> MemoryAllocator:
        """An allocator that takes its pages from the same file."""
        other = copy.copy(self)
        other.file = file
        other._begin()
        return other

    def __enter__(self) -> Self:
        self.file = _PlainFile(self.fname)
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.flush_page()
        if isinstance(self.file, _PlainFile):
            self.file.close()

    def set_current_sample(self, current_sample_id: int) -> None:
        """The allocations that follow belong to this sample."""
        self.current_sample_id = current_sample_id

    @property
    def space_left_in_page(self) -> int:
        """Bytes that are free in the current page."""
        return 0 if self.my_page < 0 else self.page_size - self.page_offset

    def malloc(self, size: int) -> tuple[int, Any]:
        """Memory for ``size`` bytes, and the pointer under which they are found later."""
        size = int(size)
        if size > self.page_size:
            raise ValueError(
                f"Tried allocating {size} but page size is {self.page_size}; give DatasetWriter a larger page_size"
            )
        if size > self.space_left_in_page or self.my_page < 0:
            self._take_page()
        begin, self.page_offset = self.page_offset, self.page_offset + size
        pointer = self.offset + self.my_page * self.page_size + begin
        self.allocations.append((self.current_sample_id, pointer, size))
        return pointer, self.page_data[begin : self.page_offset]

    def _take_page(self) -> None:
        self.flush_page()
        with self.next_page_allocated.get_lock():
            self.my_page = int(self.next_page_allocated.value)
            self.next_page_allocated.value = self.my_page + 1
        self.page_offset = self._written = 0
        self.page_data.fill(0)
        kept = len(self.allocations)
        while kept and self.allocations[kept - 1][0] == self.current_sample_id:
            kept -= 1
        if kept < len(self.allocations):
            del self.allocations[kept:]
            raise MemoryError("Not enough memory to fit the whole sample")

    def flush_page(self) -> None:
        """Write the rest of the current page, used or not."""
        self._write_up_to(self.page_size)

    def write_used(self) -> None:
        """Write what is used of the current page; more of it may follow."""
        self._write_up_to(self.page_offset)

    def _write_up_to(self, end: int) -> None:
        if self.my_page < 0 or self._written >= end:
            return
        if self.file is None:
            raise RuntimeError("the allocator has no file yet; use it in a with block")
        page = self.offset + self.my_page * self.page_size
        self.file.write_at(page + self._written, self.page_data[self._written : end])
        self._written = end

    @property
    def end(self) -> int:
        """First byte after the pages of all allocators."""
        return self.offset + int(self.next_page_allocated.value) * self.page_size


class _PlainFile:
    """A file that is there already, or is made."""

    def __init__(self, path: Any) -> None:
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)

    def write_at(self, offset: int, buffer: Any) -> None:
        view = memoryview(buffer).cast("B")
        while view:
            count = os.pwrite(self._fd, view, offset)
            view, offset = view[count:], offset + count

    def close(self) -> None:
        os.close(self._fd)
