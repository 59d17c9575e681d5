"""What ``headrace info`` says about an archive."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Any

from headrace.annex import side_exists
from headrace.formats.barecat.archive import Archive
from headrace.formats.barecat.names import MAX_SHARDS, shard_numbers, shard_path
from headrace.formats.barecat.pictures import Pictures
from headrace.progress import format_bytes, format_count
from headrace.storage import is_remote, stored_size
from headrace.types import Summary

if TYPE_CHECKING:
    from headrace.errors import PathLike

__all__ = ["archive_size_bytes", "summarize_archive"]


def archive_size_bytes(path: PathLike) -> int:
    """How much its files hold."""
    with Archive(path) as archive:
        return archive.total_size


def summarize_archive(path: PathLike, *, follow_links: bool = False) -> Summary:
    """Counts, shards, gaps and what is missing."""
    with Archive(path, follow_links=follow_links) as archive:
        values = _values(archive)
    headline = f"{format_count(values['files'], 'file')}, {format_bytes(values['size_bytes'])}"
    return Summary(values=values, headline=headline, fields={}, details=_details(values))


def _values(archive: Archive) -> dict[str, Any]:
    sizes = _remote_sizes(archive) if is_remote(archive.full_path) else _sizes(archive)
    physical = sum(sizes.values())
    missing = _missing_bytes(archive, sizes)
    return {
        "path": archive.path,
        "format": "barecat",
        "files": archive.num_files,
        "dirs": archive.num_dirs,
        "size_bytes": archive.total_size,
        "shards": len(sizes),
        "shard_size_limit": archive.shard_size,
        "shard_bytes": physical,
        "gap_bytes": max(0, physical + missing - archive.total_size),
        "missing_bytes": missing,
        "without_checksum": archive.index.number("SELECT count(*) FROM files WHERE crc32c IS NULL"),
        "schema": ".".join(map(str, archive.version)),
        "jpeg_index": _jpeg_index(archive),
    }


def _sizes(archive: Archive) -> dict[int, int]:
    numbers = shard_numbers(archive.full_path)
    return {number: os.path.getsize(shard_path(archive.full_path, number)) for number in numbers}


def _remote_sizes(archive: Archive) -> dict[int, int]:
    """Of the shards that the index names and that are there."""
    last = archive.index.last_file()
    sizes = {}
    for number in range(0 if last is None else min(last.shard + 1, MAX_SHARDS)):
        with contextlib.suppress(FileNotFoundError):
            sizes[number] = stored_size(shard_path(archive.full_path, number))
    return sizes


def _missing_bytes(archive: Archive, sizes: dict[int, int]) -> int:
    """How much of the files lies behind the ends of the shards, or in shards that are not there."""
    last = archive.index.last_file()
    count = 0 if last is None else min(last.shard + 1, MAX_SHARDS)
    return sum(max(0, archive.index.shard_end(number) - sizes.get(number, 0)) for number in range(count))


def _jpeg_index(archive: Archive) -> dict[str, int] | None:
    if not side_exists(archive.path):
        return None
    pictures = Pictures(archive, is_checked=False)
    count = 0 if pictures.tile_index is None else pictures.tile_index.count
    return {"pictures": pictures.facts.num_samples, "jpegs_indexed": count}


def _details(values: dict[str, Any]) -> list[tuple[str, str]]:
    limit = values["shard_size_limit"]
    details = [
        ("directories", f"{values['dirs']:,}"),
        ("shards", f"{values['shards']:,}, limit {format_bytes(limit) if limit else 'none'}"),
        ("gaps", format_bytes(values["gap_bytes"])),
    ]
    if values["missing_bytes"]:
        details.append(("MISSING", f"{format_bytes(values['missing_bytes'])}; headrace verify names the files"))
    if values["without_checksum"]:
        details.append(("no checksum", f"{format_count(values['without_checksum'], 'file')}"))
    details.append(("schema", values["schema"]))
    if index := values["jpeg_index"]:
        details.append(("jpeg index", f"{index['jpegs_indexed']:,} of {format_count(index['pictures'], 'picture')}"))
    return details
