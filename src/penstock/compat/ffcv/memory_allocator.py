"""Pages of a new file, filled one allocation after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from penstock.compat.ffcv.utils import align_to_page

if TYPE_CHECKING:
    from penstock.storage import AtomicFile

__all__ = ["MemoryAllocator"]


class MemoryAllocator:
    """Gives out memory of the current page; all of a sample lies on one page.

    ``malloc`` raises MemoryError when the sample has to be encoded again, on the fresh page that it has taken by then.
    """

    def __init__(self, file: AtomicFile, offset_start: int, page_size: int) -> None:
        self.file = file
        self.offset = align_to_page(offset_start, page_size)
        self.page_size = page_size
        self.page_offset = 0
        self.my_page = -1
        self.page_data = np.zeros(page_size, "<u1")
        self.allocations: list[tuple[int, int, int]] = []
        self.current_sample_id = -1

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
        if size > self.space_left_in_page:
            self.flush_page()
            self.my_page += 1
            self.page_offset = 0
            self.page_data.fill(0)
            kept = len(self.allocations)
            while kept and self.allocations[kept - 1][0] == self.current_sample_id:
                kept -= 1
            if kept < len(self.allocations):
                del self.allocations[kept:]
                raise MemoryError("Not enough memory to fit the whole sample")
        begin, self.page_offset = self.page_offset, self.page_offset + size
        pointer = self.offset + self.my_page * self.page_size + begin
        self.allocations.append((self.current_sample_id, pointer, size))
        return pointer, self.page_data[begin : self.page_offset]

    def flush_page(self) -> None:
        """Write the current page."""
        if self.my_page >= 0:
            self.file.write_at(self.offset + self.my_page * self.page_size, self.page_data)

    @property
    def end(self) -> int:
        """First byte after the pages."""
        return self.offset + (self.my_page + 1) * self.page_size
