"""zip, read and written one entry after the other."""

from __future__ import annotations

import calendar
import contextlib
import io
import stat
import struct
import time
import zipfile
from functools import partial
from typing import TYPE_CHECKING, Any

from headrace.errors import FormatError
from headrace.formats.entry_names import safe_name
from headrace.formats.metadata import Metadata
from headrace.progress import format_count
from headrace.storage import available_bytes, open_reader
from headrace.transfer.entry import Entry

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

    from headrace.transfer.targets import Target

__all__ = ["ZipSink", "count_in_zip", "open_zip", "read_zip"]

_ENCRYPTED = 1
_LARGE_BYTES = 1 << 30
_PIECE = 1 << 20
_FIRST, _LAST = (1980, 1, 1, 0, 0, 0), (2107, 12, 31, 23, 59, 58)  # moments that a zip can say
_END_BYTES = (1 << 16) + 22 + 76  # the last record with the longest comment, and those of large files before it
_SMALL_DIRECTORY = 64 << 20
_DIRECTORY_COST = 16  # what a byte of it takes in memory, at worst
_PERMISSIONS = 0o7777  # of a mode; a hostile index may have any number there


def read_zip(path: str, skipped: list[str]) -> Iterator[Entry]:
    """The entries of a file; what cannot be carried is noted in ``skipped``."""
    with open_zip(path) as archive:
        for member in archive.infolist():
            name = safe_name(member.filename)
            mode = member.external_attr >> 16
            if stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR) or member.flag_bits & _ENCRYPTED:
                skipped.append(f"{member.filename}: encrypted, or neither a file nor a directory")
                continue
            about = Metadata(mode=stat.S_IMODE(mode) or None, mtime_ns=_time_ns(member))
            content: Any = partial(archive.open, member)
            yield Entry(name, member.is_dir(), member.file_size, about, content)


@contextlib.contextmanager
def open_zip(path: str) -> Iterator[zipfile.ZipFile]:
    """A zip, open for reading, unless its directory is too large for the memory there is."""
    with open_reader(path) as file:
        size = _directory_bytes(file)
        if size > max(_SMALL_DIRECTORY, available_bytes() // _DIRECTORY_COST):
            raise FormatError(
                path,
                problem=f"its list of files has {format_count(size, 'byte')}, and to read it would take all memory",
                fix="If it is right, unpack it with another program.",
            )
        with zipfile.ZipFile(file) as archive:
            yield archive


def _directory_bytes(file: BinaryIO) -> int:
    """The size of the list of files, as the end of the file says; what is wrong in it zipfile tells."""
    size = file.seek(0, io.SEEK_END)
    file.seek(max(0, size - _END_BYTES))
    end = file.read()
    file.seek(0)
    is_plain = end[-22:-18] == b"PK\5\6" and end[-2:] == bytes(2)  # no comment follows
    at = len(end) - 22 if is_plain else end.rfind(b"PK\5\6")
    if at < 0 or at + 22 > len(end):
        return 0
    sizes: list[int] = list(struct.unpack_from("<I", end, at + 12))
    wide = at - 20 - 56  # the record of large files, before the one that says where it is
    if wide >= 0 and end[wide : wide + 4] == b"PK\6\6":
        sizes = [*(small for small in sizes if small != 0xFFFFFFFF), *struct.unpack_from("<Q", end, wide + 40)]
    return min(max(sizes), size)


def count_in_zip(path: str) -> int:
    """How many files are in it."""
    with open_zip(path) as file:
        return sum(not member.is_dir() for member in file.infolist())


def _time_ns(member: zipfile.ZipInfo) -> int | None:
    """The time as UTC: a zip does not say which zone it means, and the answer must not depend on the machine."""
    try:
        return calendar.timegm((*member.date_time, 0, 0, 0)) * 1_000_000_000
    except (ValueError, OverflowError):
        return None


class ZipSink:
    """Writes a zip that is not compressed."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._zip = zipfile.ZipFile(target.file, "w", zipfile.ZIP_STORED, strict_timestamps=False)

    def put(self, entry: Entry) -> None:
        """Store one."""
        moment = min(max(time.gmtime((entry.about.mtime_ns or 0) // 1_000_000_000)[:6], _FIRST), _LAST)
        name = f"{entry.name}/" if entry.is_dir else entry.name
        info = zipfile.ZipInfo(name, moment)
        mode = entry.about.mode if entry.about.mode is not None else (0o755 if entry.is_dir else 0o644)
        info.external_attr = ((mode & _PERMISSIONS) | (stat.S_IFDIR if entry.is_dir else stat.S_IFREG)) << 16
        if entry.is_dir:
            self._zip.writestr(info, b"")
            return
        info.file_size = entry.size
        with entry.open() as file, self._zip.open(info, "w", force_zip64=entry.size > _LARGE_BYTES) as out:
            while piece := file.read(_PIECE):
                out.write(piece)

    def finish(self) -> None:
        """All were stored."""
        self._zip.close()
        self._target.keep()

    def abort(self, error: BaseException | None = None) -> None:
        """Throw away what is there."""
        self._target.drop()
        with contextlib.suppress(Exception):
            self._zip.close()
