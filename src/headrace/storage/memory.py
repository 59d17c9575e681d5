"""Memory for bytes on their way."""

from __future__ import annotations

import contextlib
import mmap

import numpy as np
import numpy.typing as npt

__all__ = ["allocate_pages", "available_bytes"]


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


def available_bytes() -> int:
    """Memory that can be used without pushing anything out, as the system and its control group say."""
    found = [_meminfo_available()]
    for limit, used in (
        ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
        ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
    ):
        with contextlib.suppress(OSError, ValueError), open(limit) as limit_file, open(used) as used_file:
            found.append(max(0, int(limit_file.read()) - int(used_file.read())))
    return min(found)


def _meminfo_available() -> int:
    with contextlib.suppress(OSError), open("/proc/meminfo") as file:
        for line in file:
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return 1 << 62
