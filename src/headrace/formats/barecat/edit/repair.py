"""``headrace.repair`` of an archive: what a killed writer has left is put in order."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from headrace.formats.barecat.edit.editor import Editor
from headrace.formats.barecat.edit.maintenance import is_resharding
from headrace.formats.barecat.edit.recovery import settle_archive
from headrace.formats.barecat.index.connections import connect_still
from headrace.formats.barecat.index.schema import check_version
from headrace.formats.barecat.names import archive_path, index_path, place_of
from headrace.types import RepairReport

if TYPE_CHECKING:
    from headrace.errors import PathLike

__all__ = ["repair_archive"]


def repair_archive(path: PathLike) -> RepairReport:
    """Put an archive in order after its writer was killed, and remove what else was left; see ``headrace.repair``."""
    shown = archive_path(path)
    place = place_of(shown, follow_links=False)
    done = settle_archive(place, shown)
    if _has_reshard(place):
        Editor(place).close()  # whoever opens it for writing finishes that
        done.append("what a killed reshard had begun was finished: shards that no file lies in are gone")
    return RepairReport(path=shown, done=tuple(done))


def _has_reshard(place: str) -> bool:
    index = index_path(place)
    with contextlib.closing(connect_still(index)) as connection:
        check_version(index, connection, is_writer=False)
        return is_resharding(connection)
