"""Gaps in shards, taking them out, and another size for shards."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.compat.barecat.exceptions import translated
from headrace.formats.barecat.edit import maintenance

if TYPE_CHECKING:
    from headrace.compat.barecat.core.barecat import Barecat
    from headrace.formats.barecat.edit.maintenance import Method

__all__ = ["defragment", "get_gap_stats", "reshard"]


def defragment(bc: Barecat, method: Method, max_seconds: float | None = None) -> int:
    """Take the gaps out of the shards; gives the number of bytes freed. A crash at any point loses nothing."""
    if bc.readonly:
        raise ValueError("Cannot defrag a read-only Barecat")
    with translated():
        return maintenance.defragment(bc._archive, method, max_seconds=max_seconds)


def get_gap_stats(bc: Barecat) -> dict[str, Any]:
    """How much could be freed, and where."""
    gaps = maintenance.find_gaps(bc._archive)
    physical, logical = bc.total_physical_size_seek, bc.total_logical_size
    by_shard: dict[int, list[tuple[int, int]]] = {}
    for shard, offset, size in gaps:
        by_shard.setdefault(shard, []).append((offset, size))
    sizes = [size for _, _, size in gaps]
    return {
        "total_gap_size": sum(sizes),
        "num_gaps": len(sizes),
        "gap_sizes": sizes,
        "physical_size": physical,
        "logical_size": logical,
        "fragmentation_ratio": physical / logical if logical else 1.0,
        "gaps_by_shard": by_shard,
    }


def reshard(bc: Barecat, target_shard_size_limit: int) -> None:
    """Pack the files anew, in the order in which they lie, into shards of another size; a crash loses nothing."""
    if bc.readonly:
        raise ValueError("Cannot reshard a read-only Barecat")
    with translated():
        maintenance.reshard(bc._archive, target_shard_size_limit)
    bc.sharder.shard_size_limit = target_shard_size_limit
