"""Mode, owner and time of files and directories, as archives, tars, zips and folders have them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import os

__all__ = ["Metadata", "check_metadata", "time_ns"]

_INT64 = 1 << 63


class Metadata(NamedTuple):
    """Mode, owner and time of a file or directory; None where they are not known."""

    mode: int | None = None
    uid: int | None = None
    gid: int | None = None
    mtime_ns: int | None = None

    @classmethod
    def of(cls, status: os.stat_result) -> Metadata:
        """What the file system says."""
        return cls(status.st_mode, status.st_uid, status.st_gid, status.st_mtime_ns)


def time_ns(seconds: float) -> int | None:
    """A time in nanoseconds as the index holds it; None for one that it cannot hold (tars may say anything).

    Example:
        >>> time_ns(1.5), time_ns(1e300), time_ns(float("nan"))
        (1500000000, None, None)
    """
    scaled = seconds * 1e9
    return int(scaled) if -_INT64 <= scaled < _INT64 else None


def check_metadata(name: str, about: Metadata) -> None:
    """TypeError or ValueError for what the index cannot hold; SQLite would store any value, but not give it back."""
    for what, value in zip(Metadata._fields, about, strict=True):
        if value is not None and not isinstance(value, int):
            raise TypeError(f"{name}: {what} must be an int, got {value!r}")
        if value is not None and not -_INT64 <= value < _INT64:
            raise ValueError(f"{name}: {what} must fit into 64 bits, got {value}")
