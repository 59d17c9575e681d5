"""Several announcements as one."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from headrace.types import Announcement, BlockTimes

__all__ = ["JoinedAnnouncement", "join_announcements"]


class JoinedAnnouncement:
    """What several files bring for the same samples.

    Args:
        parts: they belong to it from now on.
    """

    def __init__(self, parts: Sequence[Announcement]) -> None:
        self._parts = tuple(parts)

    @property
    def size_bytes(self) -> int:
        """Bytes that all of them take in memory."""
        return sum(part.size_bytes for part in self._parts)

    def wait(self) -> None:
        """Return when all of them are here; raises what went wrong with the first of them that failed."""
        for part in self._parts:
            part.wait()

    def close(self, *, used_up: bool = False) -> None:
        """Let all of them go."""
        for part in self._parts:
            part.close(used_up=used_up)

    def distrust(self) -> None:
        """Keep nothing of them for later."""
        for part in self._parts:
            part.distrust()

    @property
    def is_cached(self) -> bool:
        """A part of it is kept on the local disk."""
        return any(part.is_cached for part in self._parts)

    def needed_again(self, use: float, next_use: float | BlockTimes) -> None:
        """Say when all of them are used, and when next."""
        for part in self._parts:
            part.needed_again(use, next_use)


def join_announcements(parts: Iterable[Announcement | None]) -> Announcement | None:
    """All of them as one; None where there is nothing to bring. If one cannot be made, the others are let go.

    Example:
        >>> join_announcements([None, None]) is None
        True
    """
    found: list[Announcement] = []
    try:
        found += (part for part in parts if part is not None)
    except BaseException:
        JoinedAnnouncement(found).close()
        raise
    if not found:
        return None
    return found[0] if len(found) == 1 else JoinedAnnouncement(found)
