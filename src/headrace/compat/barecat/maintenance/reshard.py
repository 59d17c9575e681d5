"""Another size limit for the shards of an archive."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.compat.barecat.exceptions import translated
from headrace.formats.barecat.edit.maintenance import reshard as reshard_archive

if TYPE_CHECKING:
    from headrace.compat.barecat.core.barecat import Barecat

__all__ = ["reshard"]


def reshard(bc: Barecat, target_shard_size_limit: int) -> None:
    """Pack the files anew, in the order in which they lie, into shards of another size; a crash loses nothing."""
    if bc.readonly:
        raise ValueError("Cannot reshard a read-only Barecat")
    with translated():
        reshard_archive(bc._archive, target_shard_size_limit)
    bc.sharder.shard_size_limit = target_shard_size_limit
