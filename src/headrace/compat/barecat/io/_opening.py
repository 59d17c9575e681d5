"""``Barecat.open``: which file object, and what happens when it is closed."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

from headrace.compat.barecat.core.paths import normalize_path
from headrace.compat.barecat.core.types import BarecatFileInfo
from headrace.compat.barecat.exceptions import (
    FileExistsBarecatError,
    FileNotFoundBarecatError,
    IsADirectoryBarecatError,
)
from headrace.compat.barecat.io.fileobj import BarecatFileObject, BarecatReadWriteFileObject
from headrace.formats.barecat.file_objects import parse_mode

if TYPE_CHECKING:
    from headrace.compat.barecat.core.barecat import Barecat

__all__ = ["open_file"]


def open_file(
    bc: Barecat, item: BarecatFileInfo | str, mode: str, encoding: str | None, errors: str | None, newline: str | None
) -> Any:
    """A file object, as Python's ``open`` gives it."""
    letter, is_updated, is_text = parse_mode(mode)
    binary = _open_binary(bc, item, letter, is_updated)
    if not is_text:
        return binary
    return io.TextIOWrapper(binary, encoding=encoding or "utf-8", errors=errors, newline=newline)


def _open_binary(bc: Barecat, item: BarecatFileInfo | str, letter: str, is_updated: bool) -> BarecatFileObject:
    info: BarecatFileInfo | None
    try:
        info = bc.index._rows.file_of(item)
        path = info.path
    except FileNotFoundBarecatError:
        info, path = None, normalize_path(item)  # type: ignore[arg-type]
    if letter == "x" and info is not None:
        raise FileExistsBarecatError(path)
    if letter == "r" and info is None:
        raise FileNotFoundBarecatError(path)
    if letter == "r" and not is_updated and info is not None:
        return bc.sharder.open_from_address(info.shard or 0, info.offset or 0, info.size or 0)
    if bc.readonly:
        raise ValueError(f"Cannot open file '{path}' for writing: archive is read-only")
    if info is None and bc.isdir(path):
        raise IsADirectoryBarecatError(path)
    if info is not None and bc.append_only:
        raise PermissionError(f"Cannot open file '{path}' for writing: it exists, and the archive is append-only")
    mode = f"{letter}{'+' if is_updated else ''}b"
    is_cut = letter == "w" or info is None

    def store(file: BarecatReadWriteFileObject) -> None:
        _store(bc, path, file, is_new=info is None, is_cut=is_cut)

    if is_cut or info is None:
        return BarecatReadWriteFileObject(None, 0, 0, store, mode)
    return bc.sharder.open_from_address(info.shard or 0, info.offset or 0, info.size or 0, mode, store)


def _store(bc: Barecat, path: str, file: BarecatReadWriteFileObject, *, is_new: bool, is_cut: bool) -> None:
    """Put the content where the original would: new and grown files behind all others, changed ones in place."""
    if not (file.dirty or is_new or is_cut):
        return
    index, size = bc.index, file.size
    file.seek(0)
    if size == 0:
        if is_new:
            index.add_file(BarecatFileInfo(path=path, shard=0, offset=0, size=0, crc32c=0))
        else:
            index.update_file(path, new_size=0, new_crc32c=0)
    elif is_new:
        bc.add(BarecatFileInfo(path=path, size=size), fileobj=file)
    elif size > file.original_size:
        shard, offset, _, crc32c = bc.sharder.add(size=size, fileobj=file)
        index.update_file(path, shard, offset, size, crc32c)
    else:
        old = index.lookup_file(path)
        *_, crc32c = bc.sharder.add(old.shard, old.offset, size, fileobj=file, raise_if_cannot_fit=True)
        index.update_file(path, new_size=size, new_crc32c=crc32c)
