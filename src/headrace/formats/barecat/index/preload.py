"""Where all files of an archive are, in memory."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

import numpy as np

from headrace._native import NativeError, PathIndex
from headrace.formats.barecat.names import MAX_SHARDS

if TYPE_CHECKING:
    from headrace.formats.barecat.index.queries import Index

__all__ = ["load_paths"]

_CHUNK = 20_000
# What cannot be (text for a number, a shard that no file can have) is left out: the slow way then says what is wrong.
_ALL = f"""SELECT path, shard, offset, size, coalesce(crc32c, -1) FROM files
    WHERE typeof(path) = 'text' AND typeof(shard) = 'integer' AND shard BETWEEN 0 AND {MAX_SHARDS - 1}
    AND typeof(offset) = 'integer' AND typeof(size) = 'integer' AND typeof(coalesce(crc32c, 0)) = 'integer'
    AND coalesce(crc32c, 0) BETWEEN 0 AND 4294967295"""


def load_paths(index: Index) -> PathIndex:
    """Read the whole index into a table of about 50 bytes a file."""
    if index.table is not None:
        with contextlib.suppress(NativeError):  # SQLite reads what it can
            paths = _new_table(index)
            index.table.fill(paths)
            return paths
    paths = _new_table(index)
    names: list[str] = []
    flat: list[int] = []
    for path, shard, offset, size, checksum in index.rows(_ALL):
        names.append(path)
        flat += (shard, offset, size, checksum)
        if len(names) == _CHUNK:
            paths.add(names, np.array(flat, np.int64).reshape(-1, 4))
            names, flat = [], []
    paths.add(names, np.array(flat, np.int64).reshape(-1, 4))
    return paths


def _new_table(index: Index) -> PathIndex:
    return PathIndex(index.count_files(), int.from_bytes(os.urandom(8), "little"))
