"""Memory for bytes on their way."""

from __future__ import annotations

import contextlib
import mmap
from typing import TYPE_CHECKING, TypeGuard

import numpy as np
import numpy.typing as npt

from headrace._native import PooledBuffer
from headrace.progress import format_bytes

__all__ = ["allocate_pages", "available_bytes", "is_lent", "room_for", "total_bytes"]

if TYPE_CHECKING:
    from collections.abc import Iterator

_UNASKED_BYTES = 1 << 30  # so much is taken without asking how much there is


def allocate_pages(size_bytes: int) -> npt.NDArray[np.uint8]:
    """Zeroed memory of its own, aligned to pages; large pages where the system has them.

    Example:
        >>> int(allocate_pages(10_000).sum())
        0
    """
    memory = mmap.mmap(-1, max(size_bytes, 1), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with contextlib.suppress(OSError, AttributeError):  # a system without large pages
        memory.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(memory, np.uint8)[:size_bytes]


def is_lent(value: object) -> TypeGuard[memoryview]:
    """A value is memory that a pool has lent for it alone: it stays as it is, and need not be copied.

    Example:
        >>> is_lent(b"abc"), is_lent(memoryview(bytearray(3)))
        (False, False)
    """
    return isinstance(value, memoryview) and isinstance(value.obj, PooledBuffer)


def available_bytes() -> int:
    """Memory that can be used without pushing anything out, as the system and its control group say."""
    found = [_meminfo("MemAvailable")]
    for limit, used in (
        ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
        ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
    ):
        with contextlib.suppress(OSError, ValueError), open(limit) as limit_file, open(used) as used_file:
            found.append(max(0, int(limit_file.read()) - int(used_file.read())))
    return min(found)


@contextlib.contextmanager
def room_for(size_bytes: int, what: str, *, fix: str) -> Iterator[None]:
    """Take memory inside the block; ValueError when it cannot be had, for the most part before it is asked for.

    Args:
        size_bytes: of what is wanted.
        what: in words, such as "a batch of 64 values".
        fix: what to do about it.
    """
    problem = f"{what} would take {format_bytes(size_bytes)}"
    if size_bytes > _UNASKED_BYTES and size_bytes > (total := total_bytes()):
        raise ValueError(f"{problem}, and there are {format_bytes(total)}. {fix}")
    try:
        yield
    except (MemoryError, OSError) as error:
        raise ValueError(f"{problem}, which cannot be had ({error}). {fix}") from error


def total_bytes() -> int:
    """All memory that there is, used or not, as the system and its control group say."""
    found = [_meminfo("MemTotal")]
    for limit in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        with contextlib.suppress(OSError, ValueError), open(limit) as file:
            found.append(int(file.read()))
    return min(found)


def _meminfo(name: str) -> int:
    with contextlib.suppress(OSError), open("/proc/meminfo") as file:
        for line in file:
            if line.startswith(f"{name}:"):
                return int(line.split()[1]) * 1024
    return 1 << 62
