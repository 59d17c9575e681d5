"""Gaps in shards, and taking them out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headrace.compat.barecat.exceptions import translated
from headrace.formats.barecat.edit.maintenance import Method, defragment, find_gaps

if TYPE_CHECKING:
    from headrace.compat.barecat.core.barecat import Barecat

__all__ = ["BarecatDefragger", "FragmentGap"]


@dataclass(order=True)
class FragmentGap:
    """A stretch of bytes that no file has."""

    shard: int
    offset: int
    size: int


class BarecatDefragger:
    """Takes the gaps out of the shards of an archive; a crash at any point loses nothing.

    Args:
        bc: the archive, for everything but statistics open for writing.
    """

    def __init__(self, bc: Barecat) -> None:
        self.bc = bc
        self.index = bc.index
        self.readonly = bc.readonly
        self.shard_size_limit = bc.shard_size_limit

    def _defrag(self, method: Method, max_seconds: float | None = None) -> int:
        if self.readonly:
            raise ValueError("Cannot defrag a read-only Barecat")
        with translated():
            return defragment(self.bc._archive, method, max_seconds=max_seconds)

    def defrag(self) -> int:
        """Move every file down to the next free place; gives the number of bytes freed."""
        return self._defrag("full")

    def defrag_smart(self) -> int:
        """The same with stretches of files that lie together in one copy each."""
        return self._defrag("smart")

    def defrag_quick(self, time_max_seconds: float = 5, max_skip_normal: int = 2, max_skip_outlier: int = 10) -> int:
        """Only move files from the end into gaps that fit, and not for longer than this.

        Args:
            time_max_seconds: stop after this time, between two files.
            max_skip_normal: kept for programs that pass it; every gap is tried.
            max_skip_outlier: kept for programs that pass it.
        """
        return self._defrag("quick", time_max_seconds)

    def needs_defrag(self) -> bool:
        """The shards have more bytes than the files."""
        return self.bc.total_physical_size_seek > self.bc.total_logical_size

    def get_defrag_info(self) -> tuple[int, int]:
        """Bytes of the shards and of the files."""
        return self.bc.total_physical_size_seek, self.bc.total_logical_size

    def get_gaps(self, include_end_of_shard: bool = True) -> list[FragmentGap]:
        """All gaps, in order; with those between the last file of a shard and the limit of its size."""
        gaps = [FragmentGap(*gap) for gap in find_gaps(self.bc._archive)]
        if include_end_of_shard:
            for shard in range(self.index.num_used_shards):
                end = self.index.logical_shard_end(shard)
                if end < self.shard_size_limit:
                    gaps.append(FragmentGap(shard, end, self.shard_size_limit - end))
        return sorted(gaps)

    def get_gap_stats(self) -> dict[str, Any]:
        """How much could be freed, and where."""
        gaps = self.get_gaps(include_end_of_shard=False)
        physical, logical = self.get_defrag_info()
        by_shard: dict[int, list[tuple[int, int]]] = {}
        for gap in gaps:
            by_shard.setdefault(gap.shard, []).append((gap.offset, gap.size))
        return {
            "total_gap_size": sum(gap.size for gap in gaps),
            "num_gaps": len(gaps),
            "gap_sizes": [gap.size for gap in gaps],
            "physical_size": physical,
            "logical_size": logical,
            "fragmentation_ratio": physical / logical if logical else 1.0,
            "gaps_by_shard": by_shard,
        }
