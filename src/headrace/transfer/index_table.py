"""The index as a text table, and back: one line of CSV for each file and directory."""

from __future__ import annotations

import csv
import os
from typing import TYPE_CHECKING, TextIO

from headrace.errors import FormatError
from headrace.formats.barecat.archive import Archive
from headrace.formats.barecat.edit.handover import remove_archive
from headrace.formats.barecat.names import archive_exists
from headrace.formats.metadata import Metadata

if TYPE_CHECKING:
    from headrace.errors import PathLike

__all__ = ["export_index", "import_index"]

_COLUMNS = ("type", "path", "shard", "offset", "size", "crc32c", "mode", "uid", "gid", "mtime_ns")


def export_index(archive: Archive, file: TextIO) -> int:
    """Write all files and directories as CSV, sorted by path; gives the number of lines."""
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(_COLUMNS)
    count = 0
    for directory in archive.dirs("path"):
        writer.writerow(("dir", directory.path, "", "", "", "", *_texts(directory.metadata)))
        count += 1
    for info in archive.files("path"):
        place = (info.shard, info.offset, info.size, "" if info.crc32c is None else info.crc32c)
        writer.writerow(("file", info.path, *place, *_texts(info.metadata)))
        count += 1
    return count


def _texts(about: Metadata) -> list[object]:
    return ["" if value is None else value for value in about]


def import_index(path: PathLike, file: TextIO, *, force: bool = False) -> int:
    """Make the index of shards that exist from what ``export_index`` wrote; gives the number of lines.

    Nothing is checked against the shards; ``verify`` does that. The index appears when it is complete, or not at all.
    """
    target = os.fspath(path)
    if archive_exists(target) and not force:
        raise FileExistsError(f"{target} exists; give --force to replace it")
    name = getattr(file, "name", "the table")
    reader = csv.DictReader(file)
    if tuple(reader.fieldnames or ()) != _COLUMNS:
        raise FormatError(name, problem=f"the columns must be {', '.join(_COLUMNS)}")
    beside = f"{target}.import"
    count = 0
    try:
        with Archive(beside, "w") as archive:
            for row in reader:
                count += 1
                _import_row(archive, row, f"{name}, line {reader.line_num}")
        os.replace(beside, target)
    finally:
        remove_archive(beside)
    return count


def _import_row(archive: Archive, row: dict[str, str], where: str) -> None:
    try:
        numbers = [int(row[column]) if row[column] else None for column in _COLUMNS[2:]]
        shard, offset, size, checksum, *about = numbers
    except (ValueError, TypeError, KeyError):
        raise FormatError(where, problem=f"this is not a line of an index: {row}") from None
    metadata = Metadata(*about)
    if row["type"] == "dir":
        if row["path"]:
            archive.mkdir(row["path"], metadata=metadata, exist_ok=True)
    elif row["type"] == "file" and shard is not None and offset is not None and size is not None:
        archive.editor.insert(row["path"], (shard, offset, size, checksum), metadata)
    else:
        raise FormatError(where, problem=f"this is not a line of an index: {row}")
