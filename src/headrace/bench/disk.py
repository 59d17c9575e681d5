"""What the disk does for this process: counters of the kernel, and room that is asked for before it is used."""

from __future__ import annotations

import ctypes
import errno
import os
import resource
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.progress import format_bytes

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["WHAT_IS_COUNTED", "DiskUse", "check_room", "disk_use", "own_bytes", "sync_disk"]

WHAT_IS_COUNTED = (
    "Requests to the disk are counted by the kernel while random batches are read cold. Bytes: what this process made "
    "the kernel fetch from the disk (read_bytes of /proc/self/io), with what it reads ahead. Calls: calls of read and "
    "its kin (syscr); reads by io_uring and through a mapping are not among them. Faults: pages of a mapping that had "
    "to be fetched (major page faults). Requests: what the block device has completed, for every process of this "
    "machine; missing where the folder does not lie on a block device of its own."
)


@dataclass(frozen=True, slots=True)
class DiskUse:
    """Counters at one moment, or the difference of two."""

    size_bytes: int | None
    calls: int | None
    faults: int
    requests: int | None

    def since(self, before: DiskUse) -> DiskUse:
        """What was added since."""
        return DiskUse(
            _minus(self.size_bytes, before.size_bytes),
            _minus(self.calls, before.calls),
            self.faults - before.faults,
            _minus(self.requests, before.requests),
        )


def _minus(after: int | None, before: int | None) -> int | None:
    return None if after is None or before is None else after - before


def disk_use(folder: str | Path) -> DiskUse:
    """The counters now; None for what this system does not tell."""
    counted = _own_counters()
    faults = resource.getrusage(resource.RUSAGE_SELF).ru_majflt
    return DiskUse(counted.get("read_bytes"), counted.get("syscr"), faults, _device_requests(folder))


def _own_counters() -> dict[str, int]:
    try:
        with open("/proc/self/io") as file:
            return {name: int(value) for name, _, value in (line.partition(": ") for line in file)}
    except (OSError, ValueError):
        return {}


def _device_requests(folder: str | Path) -> int | None:
    device = os.stat(folder).st_dev
    try:
        with open(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}/stat") as file:
            return int(file.read().split()[0])
    except (OSError, ValueError, IndexError):
        return None


def check_room(folder: str | Path, needed_bytes: int, *, suite: str) -> None:
    """OSError when a suite would write more than there is room for; a tenth is left to others."""
    free = shutil.disk_usage(folder).free
    if needed_bytes > free * 0.9:
        problem = (
            f"not enough room: the suite {suite} writes up to {format_bytes(needed_bytes)}, and "
            f"{format_bytes(free)} are free. Name a folder on another disk with --out, or give --quick or a smaller "
            "--samples"
        )
        raise OSError(errno.ENOSPC, problem, os.fspath(folder))


def sync_disk(folder: str | Path) -> None:
    """Wait until all files of the folder's file system are on the disk, whoever wrote them."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        ctypes.CDLL(None).syncfs(fd)
    finally:
        os.close(fd)


def own_bytes() -> int:
    """Memory of this process that is not a mapped file."""
    with open("/proc/self/status") as file:
        return sum(int(line.split()[1]) * 1024 for line in file if line.startswith(("RssAnon:", "RssShmem:")))
