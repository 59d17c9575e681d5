"""The pictures of an archive by path, and the tile indices of its JPEGs beside it.

Indices are numbered as the pictures stand by path: however a dataset groups the files, and wherever they lie.
"""

from __future__ import annotations

import os
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace._native import crc32c
from headrace.annex import side_exists
from headrace.codecs.image import SUFFIXES
from headrace.formats.barecat.batches import Places, gather_places
from headrace.formats.tile_index import SideFacts, tile_index_or_warning

if TYPE_CHECKING:
    from headrace.annex import TileIndex
    from headrace.formats.barecat.archive import Archive
    from headrace.types import IndexArray

__all__ = ["Pictures"]


class Pictures:
    """Files whose names end as pictures do, as they are when first asked for."""

    def __init__(self, archive: Archive, *, is_checked: bool) -> None:
        self._archive = archive
        self._is_checked = is_checked

    @cached_property
    def _rows(self) -> list[Any]:
        rows = self._archive.index.places_by_path()
        return [row for row in rows if os.path.splitext(row[0])[1].lower() in SUFFIXES]

    def numbers(self, names: list[str]) -> IndexArray:
        """Which of the pictures these files are."""
        places = {row[0]: i for i, row in enumerate(self._rows)}
        return np.fromiter((places[name] for name in names), np.int64, len(names))

    @cached_property
    def tile_index(self) -> TileIndex | None:
        """Tile indices of the JPEGs among them, or None."""
        return tile_index_or_warning(self.facts) if side_exists(self._archive.path) else None

    @property
    def facts(self) -> SideFacts:
        """What indices beside the archive are bound to."""
        rows = self._rows
        value = crc32c("\0".join(row[0] for row in rows).encode("utf-8", "surrogatepass"))
        value = crc32c(np.array([(row[3], row[4] or 0) for row in rows], np.int64).tobytes(), value)
        size_bytes = sum(row[3] for row in rows)
        return SideFacts(self._archive.path, len(rows), size_bytes, value, self._archive.follow_links)

    def stored(self, start: int, stop: int) -> list[bytes]:
        """The bytes of pictures by number."""
        rows = self._rows[start:stop]
        places = Places.of([row[1:] for row in rows])
        return gather_places(
            self._archive.path,
            self._archive.shards,
            places,
            lambda position: str(rows[position][0]),
            is_checked=self._is_checked,
        )
