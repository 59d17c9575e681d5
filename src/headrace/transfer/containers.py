"""tar, zip, folders and archives as streams of entries, one after the other.

Nothing here is trusted: names that lead out are refused, links are followed only inside the archive, devices and pipes
are left out, and what unpacks to far more than it is stops.
"""

from __future__ import annotations

import contextlib
import errno
import gzip
import io
import lzma
import os
import stat
import struct
import tarfile
import zipfile
import zlib
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from headrace.errors import FormatError, HeadraceError
from headrace.formats.disk_files import count_ahead, find_below
from headrace.formats.metadata import Metadata
from headrace.formats.open import all_formats, format_of_name
from headrace.storage import name_part, open_stream, stored_size
from headrace.transfer.entry import Entry
from headrace.transfer.extract import LARGE_BYTES, CheckedFile, blocks_of
from headrace.transfer.tar import FREE_BYTES, MAX_RATIO, read_tar, read_tar_stream, too_large
from headrace.transfer.zip import count_in_zip, read_zip

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import BinaryIO

    from headrace.formats.barecat.archive import Archive
    from headrace.formats.barecat.index.rows import FileInfo
    from headrace.types import Progress

__all__ = [
    "KINDS",
    "STREAM_KINDS",
    "archive_entries",
    "count_entries",
    "ending_of",
    "folder_entries",
    "kind_of",
    "large_entry",
    "name_of",
    "open_archive",
    "read_entries",
]

_READ_ERRORS = (
    tarfile.TarError,
    zipfile.BadZipFile,
    zlib.error,
    gzip.BadGzipFile,
    lzma.LZMAError,
    EOFError,
    NotImplementedError,
)
KINDS = {
    ".tar": "tar",
    ".tar.gz": "tar.gz",
    ".tgz": "tar.gz",
    ".tar.bz2": "tar.bz2",
    ".tbz2": "tar.bz2",
    ".tar.xz": "tar.xz",
    ".txz": "tar.xz",
    ".tar.zst": "tar.zst",
    ".tzst": "tar.zst",
    ".zip": "zip",
}
STREAM_KINDS = ("tar", "tar.gz", "tar.bz2", "tar.xz", "tar.zst", "zip")
"""What fits into one file or stream; a zip can be written to a stream, but not read from one."""


def kind_of(path: str, *, others: Sequence[str] = ()) -> str:
    """What a path is or will be, by its ending: ``archive``, a tar or zip, or ``folder`` without one that is known.

    Args:
        path: need not exist.
        others: endings that the caller knows besides; an error names them, too.
    """
    if os.path.isdir(path):
        return "folder"
    if ending := ending_of(path):
        return KINDS.get(ending, "archive")
    if "." not in os.path.basename(path.rstrip("/")) or path.endswith("/"):
        return "folder"
    known = ", ".join([*others, *_archive_endings(), *KINDS])
    raise FormatError(path, problem="no format is known for this ending", fix=f"Known are {known}; a folder ends in /.")


def ending_of(path: str) -> str:
    """The ending that says that a path is an archive, a tar or a zip; empty without one.

    Example:
        >>> ending_of("x.tar.gz"), ending_of("x.barecat"), ending_of("x")
        ('.tar.gz', '.barecat', '')
    """
    name = name_part(path).lower().rstrip("/")
    return max((known for known in (*_archive_endings(), *KINDS) if name.endswith(known)), key=len, default="")


def _archive_endings() -> list[str]:
    return [ending for known in all_formats() if known.open_archive is not None for ending in known.suffixes]


def open_archive(path: str, *, follow_links: bool = False) -> Archive:
    """Open an archive for reading, whichever format it has; also one whose shards are links, with ``follow_links``."""
    found = format_of_name(path)
    if found is None or found.open_archive is None:
        raise FormatError(path, problem="it is not an archive")
    return found.open_archive(path, **found.link_options(follow_links))


def read_entries(
    source: str | BinaryIO,
    skipped: list[str],
    *,
    kind: str | None = None,
    max_bytes: int | None = None,
    follow_links: bool = False,
) -> Iterator[Entry]:
    """The entries of anything; what cannot be carried is noted in ``skipped``.

    Args:
        source: an archive, tar, zip or folder, or a stream that is a tar.
        skipped: takes a line for each thing that is left out.
        kind: what the source is; by default what its ending says.
        max_bytes: stop when the contents of a tar or zip are larger; by default 1 GiB, or 200 times the file if that
            is more. Links and sparse files blow up what is not compressed, too.
        follow_links: also read shards of an archive that are symbolic links.
    """
    if not isinstance(source, str):
        return _stream_entries(source, kind, skipped, max_bytes)
    kind = kind or kind_of(source)
    if kind == "folder":
        return folder_entries(source, skipped)
    if kind == "archive":
        return _archive_entries(source, follow_links)
    limit = max(FREE_BYTES, MAX_RATIO * stored_size(source)) if max_bytes is None else max_bytes
    found = read_zip(source, skipped) if kind == "zip" else read_tar(source, kind, skipped, max_bytes=limit)
    return _checked(source, _bounded(source, found, limit))


def name_of(stream: BinaryIO) -> str:
    """How errors call a stream."""
    name = getattr(stream, "name", None)
    return {"<stdin>": "standard input"}.get(name, name) if isinstance(name, str) else "the stream"


@contextlib.contextmanager
def translate_errors(source: str | BinaryIO) -> Iterator[None]:
    """FormatError for what the libraries raise while they read a broken tar or zip."""
    try:
        yield
    except Exception as error:
        is_bz2_error = type(error) is OSError and error.errno is None
        if not (isinstance(error, _READ_ERRORS) or is_bz2_error or type(error).__name__ == "ZstdError"):
            raise
        name = source if isinstance(source, str) else name_of(source)
        # After trying everything, tarfile tells of each try in a line of its own.
        why = "it is not a tar, plain or compressed" if "\n" in str(error) else error
        raise FormatError(name, problem=f"it cannot be read ({why})") from error


def _stream_entries(stream: BinaryIO, kind: str | None, skipped: list[str], max_bytes: int | None) -> Iterator[Entry]:
    name = name_of(stream)
    if kind is None:
        raise ValueError(f"{name} has no ending that says what it is; give a kind (--from), for example tar.gz")
    if kind not in STREAM_KINDS or kind == "zip":
        raise ValueError(f"a {kind} cannot be read from a stream, only a tar can; save it to a file first")
    return _checked(name, read_tar_stream(stream, kind, skipped, name=name, max_bytes=max_bytes))


@contextlib.contextmanager
def count_entries(
    source: str | BinaryIO, progress: Progress | None, *, kind: str | None = None, follow_links: bool = False
) -> Iterator[Progress | None]:
    """Progress that knows how many files there are, where that can be known before all of them were read."""
    if progress is None or not isinstance(source, str):
        yield progress
        return
    kind = kind or kind_of(source)
    if kind == "folder":
        with count_ahead(progress, lambda: find_below(source)) as report:
            yield report
        return
    total: int | None = None
    if kind == "archive":
        with open_archive(source, follow_links=follow_links) as archive:
            total = archive.num_files
    elif kind == "zip":
        total = count_in_zip(source)
    yield lambda done, _, size_bytes: progress(done, total, size_bytes)


def _checked(path: str, entries: Iterator[Entry]) -> Iterator[Entry]:
    """The entries, where names and numbers that make no sense are a FormatError; so are contents that are nowhere."""
    while True:
        with _parsing(path):
            entry = next(entries, None)
        if entry is None:
            return
        yield replace(entry, open=partial(_open_content, path, entry.open))


def _open_content(path: str, opened: Callable[[], BinaryIO]) -> BinaryIO:
    with _parsing(path):
        return opened()


@contextlib.contextmanager
def _parsing(path: str) -> Iterator[None]:
    try:
        yield
    except HeadraceError:
        raise
    except (ValueError, ArithmeticError, LookupError, struct.error, OSError) as error:
        if isinstance(error, OSError) and error.errno != errno.EINVAL:  # to be at a negative place, say
            raise
        raise FormatError(path, problem=f"it cannot be read ({error})") from error


def _bounded(path: str, entries: Iterator[Entry], limit: int) -> Iterator[Entry]:
    total = 0
    for entry in entries:
        total += entry.size
        if total > limit:
            raise too_large(path, limit)
        yield entry


def folder_entries(path: str, skipped: list[str]) -> Iterator[Entry]:
    """Everything below a folder; what cannot be carried is noted in ``skipped``."""
    for found in find_below(path, skipped=skipped):
        is_dir = stat.S_ISDIR(found.status.st_mode)
        size = 0 if is_dir else found.status.st_size
        yield Entry(found.name, is_dir, size, Metadata.of(found.status), partial(open_stream, found.path, buffering=0))


def _archive_entries(path: str, follow_links: bool) -> Iterator[Entry]:
    with open_archive(path, follow_links=follow_links) as archive:
        yield from archive_entries(archive)


def archive_entries(archive: Archive, keep: Callable[[str], bool] = lambda path: True) -> Iterator[Entry]:
    """Directories, then files in the order in which they lie; each file is checked as it is read.

    Args:
        archive: open for reading.
        keep: says for each path whether it is wanted.
    """
    for directory in archive.dirs("path"):
        if directory.path and keep(directory.path):
            yield Entry(directory.path, True, 0, directory.metadata)
    for block in blocks_of(info for info in archive.files("address") if keep(info.path)):
        if block[0].size > LARGE_BYTES:
            yield large_entry(archive, block[0])
            continue
        contents = archive.read_many([info.path for info in block])
        for info, data in zip(block, contents, strict=True):
            yield Entry(info.path, False, info.size, info.metadata, partial(io.BytesIO, data))


def large_entry(archive: Archive, info: FileInfo) -> Entry:
    """A file that is read piece by piece, and checked at its end."""
    opened: Any = partial(CheckedFile, archive, info)
    return Entry(info.path, False, info.size, info.metadata, opened)
