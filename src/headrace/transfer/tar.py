"""tar, compressed or not, read and written one entry after the other.

A file is read a second time for its links: to jump back could mean to unpack from the beginning. A stream is read once.
"""

from __future__ import annotations

import bz2
import contextlib
import gzip
import io
import lzma
import posixpath
import sys
import tarfile
from functools import partial
from typing import IO, TYPE_CHECKING, Any, Literal, cast

from headrace._native import tar_header
from headrace.codecs.zstd import open_zst
from headrace.errors import FormatError
from headrace.formats.entry_names import safe_name
from headrace.formats.metadata import Metadata, time_ns
from headrace.progress import format_count
from headrace.registry import require
from headrace.storage import open_reader
from headrace.transfer.entry import Entry, content_of, wrong_size

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

    from headrace.transfer.targets import Target

__all__ = ["FREE_BYTES", "MAX_RATIO", "TarSink", "read_tar", "read_tar_stream", "too_large"]

FREE_BYTES = 1 << 30
"""What anything may unpack to."""
MAX_RATIO = 200
"""What a byte may unpack to beyond that, on the whole: more is a bomb, or somebody knows better and says so."""
_MAX_LINKS = 40  # one after the other, as the kernel follows them
_PIECE = 1 << 20
_MAX_HEADER_BYTES = 1 << 20
_PERMISSIONS = 0o7777  # of a mode; a hostile index may have any number there


def too_large(path: str, limit: int) -> FormatError:
    """The error for something that unpacks to far more than it is."""
    return FormatError(
        path,
        problem=f"the contents take more than {format_count(limit, 'byte')}, the limit for it",
        fix="If you trust it, raise the limit (max_bytes, --max-size).",
    )


def read_tar(path: str, kind: str, skipped: list[str], *, max_bytes: int) -> Iterator[Entry]:
    """The entries of a file; links inside of it become files, what cannot be carried is noted in ``skipped``.

    Args:
        path: the file.
        kind: ``"tar"``, ``"tar.gz"`` and so on.
        skipped: takes a line for each thing that is left out.
        max_bytes: stop when the headers are larger; the caller counts the contents.
    """
    links: dict[str, tarfile.TarInfo] = {}
    with contextlib.ExitStack() as stack:
        tar = stack.enter_context(_open_tar(path, kind, stack, max_bytes))
        for member in tar:
            if member.islnk() or member.issym():
                links[safe_name(member.name)] = member
                continue
            entry = _entry(tar, member, skipped)
            if entry is not None:
                yield entry
    if links:
        yield from _linked_entries(path, kind, links, skipped, max_bytes)


def _linked_entries(
    path: str, kind: str, links: dict[str, tarfile.TarInfo], skipped: list[str], max_bytes: int
) -> Iterator[Entry]:
    """Links as files, found by reading the tar a second time."""
    waiting: dict[str, list[str]] = {}
    for name in links:
        target = name
        for _ in range(_MAX_LINKS):
            if target not in links:
                break
            target = _link_target(target, links[target])
        waiting.setdefault(target, []).append(name)
    with contextlib.ExitStack() as stack:
        tar = stack.enter_context(_open_tar(path, kind, stack, max_bytes))
        for member in tar:
            names = waiting.pop(posixpath.normpath(member.name), []) if member.isreg() else []
            entry = _entry(tar, member, skipped) if names else None
            if entry is not None:
                data = content_of(entry)
                yield from (Entry(name, False, len(data), entry.about, partial(io.BytesIO, data)) for name in names)
    lost = [name for names in waiting.values() for name in names]
    skipped += [f"{name}: a link to {links[name].linkname}, which is not a file of the archive" for name in lost]


def _link_target(name: str, member: tarfile.TarInfo) -> str:
    base = posixpath.dirname(name) if member.issym() else ""
    return posixpath.normpath(posixpath.join(base, member.linkname))


_MOST = (1 << 63) - 1


class HeaderTooLargeError(tarfile.TarError):
    """A name, or what else stands before a file in a tar, is larger than any honest one."""


class BadNumberError(tarfile.TarError):
    """A number in a header that no file can have."""


class _Tar(tarfile.TarFile):
    """A tar that is read once, from the front: it forgets what was read, and a header cannot take all memory.

    Names, attributes and maps of sparse files may be spread over any number of blocks. All that is read for one entry
    counts, whatever kind of header it is.
    """

    max_header_bytes = FREE_BYTES
    _header_bytes = 0

    def next(self) -> tarfile.TarInfo | None:
        """The next entry."""
        guarded: Any = self.fileobj
        if not isinstance(guarded, _GuardedFile):
            self.fileobj = guarded = cast("Any", _GuardedFile(guarded))
        guarded.allowed_bytes = _MAX_HEADER_BYTES
        try:
            found = super().next()
            self._header_bytes += _MAX_HEADER_BYTES - guarded.allowed_bytes
        except RecursionError:
            raise HeaderTooLargeError("a header follows a header, again and again") from None
        finally:
            guarded.allowed_bytes = None
        if self._header_bytes > self.max_header_bytes:
            raise too_large(str(self.name), self.max_header_bytes)
        cast("Any", self).members.clear()  # tarfile keeps them all, for those who come back
        if found is not None:
            _check_numbers(found)
        return found


def _check_numbers(member: tarfile.TarInfo) -> None:
    """Refuse a size below zero, which would lead back to where the entry began, and numbers of more than 63 bits."""
    if member.size < 0 or member.size > _MOST or max(abs(member.uid), abs(member.gid)) > _MOST:
        raise BadNumberError(f"{member.name!r} has a size or an owner that cannot be")


class _GuardedFile:
    """A file of which only so much may be read while ``allowed_bytes`` is a number."""

    allowed_bytes: Any = None

    def __init__(self, file: Any) -> None:
        self.file = file
        self.seek, self.tell, self.close = file.seek, file.tell, file.close

    def read(self, size: int = -1) -> bytes:
        if self.allowed_bytes is not None:
            if not 0 <= size <= self.allowed_bytes:
                raise HeaderTooLargeError(f"the header of an entry takes more than {_MAX_HEADER_BYTES} bytes")
            self.allowed_bytes -= size
        data: bytes = self.file.read(size)
        return data


def _open_tar(path: str, kind: str, stack: contextlib.ExitStack, max_bytes: int) -> tarfile.TarFile:
    file = stack.enter_context(open_reader(path))
    if kind == "tar.zst":
        tar = _Tar.open(fileobj=stack.enter_context(_filter(file, kind, "rb")), mode="r|")
    else:
        tar = _Tar.open(path, "r:*", fileobj=file)
    tar.name, tar.max_header_bytes = path, max_bytes
    return tar


def read_tar_stream(
    stream: IO[bytes], kind: str, skipped: list[str], *, name: str, max_bytes: int | None = None
) -> Iterator[Entry]:
    """The entries of a tar that comes in once, from the front; links are left out, too.

    Args:
        stream: compressed as ``kind`` says; it is read to its end.
        kind: ``"tar"``, ``"tar.gz"`` and so on.
        skipped: takes a line for each thing that is left out.
        name: of the stream, for errors.
        max_bytes: stop when the contents are larger; by default when they are larger than 1 GiB and more than 200
            times what came in.
    """
    counted = _Counted(stream)
    with _filter(cast("IO[bytes]", counted), kind, "rb") as unpacked:
        bounded = _Bounded(unpacked, counted, name, max_bytes)
        total = 0
        with _Tar.open(fileobj=cast("IO[bytes]", bounded), mode="r|") as tar:
            tar.max_header_bytes = sys.maxsize  # headers come out of ``bounded``, too
            for member in tar:
                total += member.size
                limit = bounded.limit if max_bytes is None else max_bytes
                # By default what is sent counts, as it comes; but the holes of a sparse file are never sent.
                if total > limit and (member.issparse() or max_bytes is not None):
                    raise too_large(name, limit)
                if member.islnk() or member.issym():
                    skipped.append(f"{member.name}: a link, and a stream is read only once; save it to a file first")
                    continue
                entry = _entry(tar, member, skipped)
                if entry is not None:
                    yield entry
        while bounded.read(_PIECE):  # the end of what is compressed tells whether all of it was right
            pass
        if any(bounded.tail):
            problem = "it ends without the mark that a tar ends with"
            raise FormatError(name, problem=problem, fix="It was probably cut short on its way; send it again.")


class _Counted(io.RawIOBase):
    """Knows how many bytes were read."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self.count = 0

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        data = self._stream.read(size)
        self.count += len(data)
        return data


class _Bounded:
    """Stops when far more comes out than went in, and remembers how it ended."""

    def __init__(self, unpacked: IO[bytes], counted: _Counted, name: str, max_bytes: int | None) -> None:
        self._unpacked, self._counted, self._name = unpacked, counted, name
        self._free_bytes = max(FREE_BYTES, max_bytes or 0)
        self._count = 0
        self.tail = b""

    @property
    def limit(self) -> int:
        """How many bytes may come out of what came in so far."""
        return max(self._free_bytes, MAX_RATIO * self._counted.count)

    def read(self, size: int) -> bytes:
        data = self._unpacked.read(size)
        self._count += len(data)
        if self._count > self.limit:
            raise too_large(self._name, self.limit)
        self.tail = (self.tail + data[-tarfile.BLOCKSIZE :])[-tarfile.BLOCKSIZE :]
        return data


def _filter(file: IO[bytes], kind: str, mode: Literal["rb", "wb"]) -> contextlib.AbstractContextManager[IO[bytes]]:
    """What unpacks a file that is read, or compresses one that is written."""
    match kind:
        case "tar.gz":
            opened: Any = gzip.GzipFile(filename="", fileobj=file, mode=mode, compresslevel=6, mtime=0)
        case "tar.bz2":
            opened = bz2.BZ2File(file, mode)
        case "tar.xz":
            opened = lzma.LZMAFile(file, mode)  # noqa: SIM115  # a context manager it is
        case "tar.zst" if mode == "rb":
            opened = open_zst(require("zstandard", ".tar.zst"), cast("BinaryIO", file))
        case "tar.zst":
            opened = require("zstandard", ".tar.zst").ZstdCompressor().stream_writer(file, closefd=False)
        case _:
            opened = contextlib.nullcontext(file)
    return cast("contextlib.AbstractContextManager[IO[bytes]]", opened)


def _entry(tar: tarfile.TarFile, member: tarfile.TarInfo, skipped: list[str]) -> Entry | None:
    name = safe_name(member.name)
    about = Metadata(member.mode, member.uid, member.gid, time_ns(member.mtime))
    if member.isdir():
        return Entry(name, True, 0, about) if name else None
    if not member.isreg():
        skipped.append(f"{member.name}: neither a file nor a directory")
        return None

    def content() -> BinaryIO:
        file = tar.extractfile(member)
        assert file is not None
        return file  # type: ignore[return-value]

    file = tar.fileobj.file if isinstance(tar.fileobj, _GuardedFile) else tar.fileobj
    is_stored = type(file) is io.BufferedReader and not member.issparse()  # neither compressed nor a stream
    return Entry(name, False, member.size, about, content, member.offset_data if is_stored else None)


class TarSink:
    """Writes a tar as tar(1) does: ustar headers with times in whole seconds, pax records only where they are needed.

    Args:
        target: where the bytes go.
        kind: ``"tar"``, ``"tar.gz"`` and so on.
        has_exact_times: keep fractions of seconds, which takes a kilobyte for each file.
    """

    def __init__(self, target: Target, kind: str, *, has_exact_times: bool = False) -> None:
        self._target = target
        self.has_exact_times = has_exact_times
        self._stack = contextlib.ExitStack()
        self._size_bytes = 0
        try:
            self._stream = self._stack.enter_context(_filter(target.file, kind, "wb"))
        except BaseException:
            self.abort()
            raise

    def put(self, entry: Entry) -> None:
        """Store one."""
        about = entry.about
        mode = about.mode & _PERMISSIONS if about.mode is not None else (0o755 if entry.is_dir else 0o644)
        size = 0 if entry.is_dir else entry.size
        owner = about.uid or 0, about.gid or 0
        header = tar_header(entry.name, entry.is_dir, mode, *owner, about.mtime_ns or 0, size, self.has_exact_times)
        self.write(header)
        if entry.is_dir:
            return
        with entry.open() as file:
            left = size
            while left:
                piece = file.read(min(left, _PIECE))
                if not piece:
                    raise wrong_size(entry, str(size - left))
                self.write(piece)
                left -= len(piece)
        self.write(bytes(-size % tarfile.BLOCKSIZE))

    def write(self, part: bytes) -> None:
        """Write a part of the tar that is there already: headers and contents of some members."""
        self._stream.write(part)
        self._size_bytes += len(part)

    def finish(self) -> None:
        """All were stored."""
        self.write(bytes(2 * tarfile.BLOCKSIZE))
        self.write(bytes(-self._size_bytes % tarfile.RECORDSIZE))
        self._stack.close()
        self._target.keep()

    def abort(self, error: BaseException | None = None) -> None:
        """Throw away what is there."""
        self._target.drop()
        with contextlib.suppress(Exception):
            self._stack.close()
