"""Older indexes brought up to date."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from headrace._native import crc32c as crc32c_of
from headrace.compat.barecat.core.index import Index
from headrace.compat.barecat.core.paths import resolve_index_path
from headrace.compat.barecat.core.types import BarecatDirInfo, BarecatFileInfo, Order
from headrace.formats.barecat.index.rows import FILE_COLUMNS
from headrace.formats.barecat.index.schema import VERSION, read_version
from headrace.formats.barecat.shards import MappedShards

if TYPE_CHECKING:
    from headrace.errors import PathLike

__all__ = ["get_schema_version", "upgrade"]

_OLDEST = (-1, 0)


def get_schema_version(dbase_path: PathLike) -> tuple[int, int]:
    """Major and minor version of an index; (-1, 0) if it is older than versions."""
    with closing(_connect(dbase_path)) as connection:
        return read_version(connection) or _OLDEST


def _connect(path: PathLike) -> sqlite3.Connection:
    return sqlite3.connect(f"file:{quote(os.path.abspath(path))}?mode=ro", uri=True)


def upgrade(path: PathLike, workers: int = 8, preserve_backup: bool = True) -> None:
    """Write the index anew in the present version; the old one stays as ``.old``.

    Checksums that are missing are computed. The new index takes the place of the old one when it is complete.
    """
    index_path = resolve_index_path(path)
    if not os.path.exists(index_path):
        raise FileNotFoundError(f"{index_path} does not exist!")
    found = get_schema_version(index_path)
    texts = [".".join(map(str, version)) for version in (found, VERSION)]
    if found == VERSION:
        print(f"Database is already at version {texts[0]}, nothing to do.")
        return
    if found > VERSION:
        raise ValueError(f"Database version {texts[0]} is newer than supported {texts[1]}. Update headrace first.")
    print(f"Upgrading from {'pre-versioned format' if found == _OLDEST else texts[0]} to {texts[1]}...")
    beside = f"{index_path}.upgrade"
    try:
        _rewrite(os.fspath(path), index_path, beside)
        os.link(index_path, f"{index_path}.old") if not os.path.exists(f"{index_path}.old") else None
        os.replace(beside, index_path)
    finally:
        if os.path.exists(beside):
            os.unlink(beside)
    if not preserve_backup:
        os.unlink(f"{index_path}.old")
    print("Upgrade complete.")


def _rewrite(archive: str, old_path: str, new_path: str) -> None:
    shards = MappedShards(archive, follow_links=True)
    with closing(_connect(old_path)) as old, Index(new_path, readonly=False) as new:
        old.row_factory = sqlite3.Row
        tables = {row[0] for row in old.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        files = [BarecatFileInfo(**_known(row)) for row in old.execute("SELECT * FROM files ORDER BY shard, offset")]
        dirs = old.execute(f"SELECT * FROM {'dirs' if 'dirs' in tables else 'directories'} ORDER BY path")
        for info in files:
            _add_checksum(info, shards)
        with new.bulk_mode():
            new.add_files(files)
            for row in dirs:
                new.add_dir(BarecatDirInfo(**_known(row) | {"path": row["path"] or ""}), exist_ok=True)
        if "config" in tables:
            limit = old.execute("SELECT value_int FROM config WHERE key = 'shard_size_limit'").fetchone()
            if limit is not None and limit[0]:
                new.shard_size_limit = limit[0]
        assert new.num_files == len(files) == sum(1 for _ in new.iter_all_filepaths(Order.PATH))


def _known(row: sqlite3.Row) -> dict[str, Any]:
    """Those columns of an old row that rows still have; statistics are counted anew."""
    return {name: row[name] for name in FILE_COLUMNS.split(", ") if name in row.keys()}  # noqa: SIM118


def _add_checksum(info: BarecatFileInfo, shards: MappedShards) -> None:
    shard, offset, size = info.shard or 0, info.offset or 0, info.size or 0
    if info.crc32c is None:
        view = shards.shard(shard, offset + size).view[offset : offset + size] if size else memoryview(b"")
        info.crc32c = crc32c_of(bytes(view)) if len(view) == size else None
