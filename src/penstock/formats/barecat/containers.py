"""tar, zip, folders and archives as streams of entries, read and written one after the other.

Nothing here is trusted: names that lead out are refused, links are followed only inside the archive, devices and pipes
are left out, and what unpacks to far more than it is stops.
"""

from __future__ import annotations

import calendar
import contextlib
import io
import lzma
import os
import posixpath
import stat
import tarfile
import time
import zipfile
import zlib
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, cast

from penstock.errors import FormatError
from penstock.formats.barecat.archive import Archive
from penstock.formats.barecat.decoded import require
from penstock.formats.barecat.entries import Entry, safe_name
from penstock.formats.barecat.extracting import LARGE_BYTES, CheckedFile, FolderTarget
from penstock.formats.barecat.packing import count_ahead, find_below
from penstock.formats.barecat.replacing import name_beside, new_archive
from penstock.formats.barecat.rows import Metadata, time_ns
from penstock.formats.barecat.zstd import open_zst

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

    from penstock.formats.barecat.rows import FileInfo
    from penstock.types import Progress

__all__ = ["KINDS", "READ_ERRORS", "Sink", "count_entries", "kind_of", "open_sink", "read_entries", "tar_entries"]

READ_ERRORS = (tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, NotImplementedError)
"""What the libraries raise for broken files."""
KINDS = {
    ".barecat": "barecat",
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
_BLOCK = 256
_ENCRYPTED = 1
_PIECE = 1 << 20
_MAX_LINKS = 40  # one after the other, as the kernel follows them
_FREE_BYTES = 1 << 30
_MAX_RATIO = 1100  # what deflate can do at most; above it, entries overlap


def kind_of(path: str) -> str:
    """What a path is or will be, by its ending; ``folder`` without one that is known."""
    lower = path.lower().rstrip("/")
    endings = [ending for ending in KINDS if lower.endswith(ending)]
    if endings and not os.path.isdir(path):
        return KINDS[max(endings, key=len)]
    if os.path.isdir(path) or "." not in os.path.basename(lower) or path.endswith("/"):
        return "folder"
    raise FormatError(
        path, problem="no format is known for this ending", fix=f"Known are {', '.join(KINDS)}; a folder ends in /."
    )


def read_entries(path: str, skipped: list[str], *, max_bytes: int | None = None) -> Iterator[Entry]:
    """The entries of anything; what cannot be carried is noted in ``skipped``.

    Args:
        path: an archive, tar, zip or folder.
        skipped: takes a line for each thing that is left out.
        max_bytes: stop when the contents of a tar or zip are larger; by default 1 GiB, or 1100 times the file if that
            is more. Links and sparse files blow up what is not compressed, too.
    """
    kind = kind_of(path)
    if kind == "folder":
        return _folder_entries(path, skipped)
    if kind == "barecat":
        return _barecat_entries(path)
    limit = max(_FREE_BYTES, _MAX_RATIO * os.path.getsize(path)) if max_bytes is None else max_bytes
    entries = _zip_entries(path, skipped) if kind == "zip" else _tar_entries(path, kind, skipped)
    return _bounded(path, entries, limit)


@contextlib.contextmanager
def count_entries(path: str, progress: Progress | None) -> Iterator[Progress | None]:
    """Progress that knows how many files there are, where that can be known before all of them were read."""
    kind = kind_of(path)
    if kind == "folder" or progress is None:
        with count_ahead(progress, lambda: find_below(path)) as report:
            yield report
        return
    total: int | None = None
    if kind == "barecat":
        with Archive(path) as archive:
            total = archive.num_files
    elif kind == "zip":
        with zipfile.ZipFile(path) as file:
            total = sum(not member.is_dir() for member in file.infolist())
    yield lambda done, _, size_bytes: progress(done, total, size_bytes)


def _bounded(path: str, entries: Iterator[Entry], limit: int) -> Iterator[Entry]:
    total = 0
    for entry in entries:
        total += entry.size
        if total > limit:
            raise FormatError(
                path,
                problem=f"the contents take more than {limit} bytes, far more than the file itself",
                fix="If that is right, raise the limit (max_bytes, --max-size).",
            )
        yield entry


def _folder_entries(path: str, skipped: list[str]) -> Iterator[Entry]:
    for found in find_below(path, skipped=skipped):
        is_dir = stat.S_ISDIR(found.status.st_mode)
        size = 0 if is_dir else found.status.st_size
        yield Entry(found.name, is_dir, size, Metadata.of(found.status), _opener(found.path))


def _opener(path: str) -> Any:
    return lambda: open(path, "rb", buffering=0)


def _barecat_entries(path: str) -> Iterator[Entry]:
    with Archive(path) as archive:
        for directory in archive.dirs("path"):
            if directory.path:
                yield Entry(directory.path, True, 0, directory.metadata)
        block: list[FileInfo] = []
        for info in archive.files("address"):
            if info.size > LARGE_BYTES:
                yield from _loaded(archive, block)
                block = []
                yield Entry(info.path, False, info.size, info.metadata, partial(_checked, archive, info))
                continue
            block.append(info)
            if len(block) >= _BLOCK or info.size > _PIECE:
                yield from _loaded(archive, block)
                block = []
        yield from _loaded(archive, block)


def _checked(archive: Archive, info: FileInfo) -> BinaryIO:
    return cast("BinaryIO", CheckedFile(archive, info))


def _loaded(archive: Archive, block: list[Any]) -> Iterator[Entry]:
    contents = archive.read_many([info.path for info in block])
    for info, data in zip(block, contents, strict=True):
        yield Entry(info.path, False, info.size, info.metadata, partial(io.BytesIO, data))


def _tar_entries(path: str, kind: str, skipped: list[str]) -> Iterator[Entry]:
    links: dict[str, tarfile.TarInfo] = {}
    with contextlib.ExitStack() as stack:
        yield from tar_entries(stack.enter_context(_open_tar(path, kind, stack)), skipped, links)
    if links:
        yield from _linked_entries(path, kind, links, skipped)


def tar_entries(
    tar: tarfile.TarFile, skipped: list[str], links: dict[str, tarfile.TarInfo] | None = None
) -> Iterator[Entry]:
    """The entries of an open tar, read once from the front; what cannot be carried is noted in ``skipped``.

    Links go into ``links``, for a second reading: to jump back could mean to unpack from the beginning.
    """
    for member in tar:
        if links is not None and (member.islnk() or member.issym()):
            links[safe_name(member.name)] = member
            continue
        entry = _tar_entry(tar, member, skipped)
        if entry is not None:
            yield entry


def _linked_entries(path: str, kind: str, links: dict[str, tarfile.TarInfo], skipped: list[str]) -> Iterator[Entry]:
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
        tar = stack.enter_context(_open_tar(path, kind, stack))
        for member in tar:
            names = waiting.pop(posixpath.normpath(member.name), []) if member.isreg() else []
            entry = _tar_entry(tar, member, skipped) if names else None
            if entry is not None:
                data = _content(entry)
                yield from (Entry(name, False, len(data), entry.about, partial(io.BytesIO, data)) for name in names)
    lost = [name for names in waiting.values() for name in names]
    skipped += [f"{name}: a link to {links[name].linkname}, which is not a file of the archive" for name in lost]


def _link_target(name: str, member: tarfile.TarInfo) -> str:
    base = posixpath.dirname(name) if member.issym() else ""
    return posixpath.normpath(posixpath.join(base, member.linkname))


def _open_tar(path: str, kind: str, stack: contextlib.ExitStack) -> tarfile.TarFile:
    if kind != "tar.zst":
        return tarfile.open(path, "r:*")
    zstandard = require("zstandard", ".tar.zst")
    file = stack.enter_context(open(path, "rb"))  # noqa: SIM115  # it is the stack that closes
    return tarfile.open(fileobj=stack.enter_context(open_zst(zstandard, file)), mode="r|")


def _tar_entry(tar: tarfile.TarFile, member: tarfile.TarInfo, skipped: list[str]) -> Entry | None:
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

    return Entry(name, False, member.size, about, content)


def _zip_entries(path: str, skipped: list[str]) -> Iterator[Entry]:
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            name = safe_name(member.filename)
            mode = member.external_attr >> 16
            if stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR) or member.flag_bits & _ENCRYPTED:
                skipped.append(f"{member.filename}: encrypted, or neither a file nor a directory")
                continue
            about = Metadata(mode=stat.S_IMODE(mode) or None, mtime_ns=_zip_time_ns(member))
            content: Any = partial(archive.open, member)
            yield Entry(name, member.is_dir(), member.file_size, about, content)


def _zip_time_ns(member: zipfile.ZipInfo) -> int | None:
    """The time as UTC: a zip does not say which zone it means, and the answer must not depend on the machine."""
    try:
        return calendar.timegm((*member.date_time, 0, 0, 0)) * 1_000_000_000
    except (ValueError, OverflowError):
        return None


class Sink(Protocol):
    """Takes entries."""

    def put(self, entry: Entry) -> None:
        """Store one."""
        ...

    def finish(self) -> None:
        """All were stored."""
        ...

    def abort(self, error: BaseException | None = None) -> None:
        """Throw away what is there; the error may then say the final name."""
        ...


def open_sink(path: str, *, shard_size: int | None = None, force: bool = False) -> Sink:
    """Make what entries go to."""
    kind = kind_of(path)
    if kind != "folder" and os.path.exists(path) and not force:
        raise FileExistsError(f"{path} exists; give --force to replace it")
    if kind == "barecat":
        return _BarecatSink(path, shard_size)
    if kind == "folder":
        return _FolderSink(path, force)
    return _ZipSink(path) if kind == "zip" else _TarSink(path, kind)


def _content(entry: Entry) -> bytes:
    """The whole content, which must have the size that was announced."""
    with entry.open() as file:
        data = file.read(entry.size + 1)
    if len(data) != entry.size:
        raise ValueError(f"{entry.name} should have {entry.size} bytes and has {'more' if data else 'none'}")
    return data


class _BarecatSink:
    def __init__(self, path: str, shard_size: int | None) -> None:
        self._stack = contextlib.ExitStack()
        self._archive = self._stack.enter_context(new_archive(path, shard_size=shard_size))
        self._times: dict[str, Metadata] = {}

    def put(self, entry: Entry) -> None:
        if entry.is_dir:
            self._archive.mkdir(entry.name, metadata=entry.about, exist_ok=True)
            self._times[entry.name] = entry.about
        elif entry.size <= _PIECE:
            self._archive.add(entry.name, _content(entry), metadata=entry.about)
        else:
            with entry.open() as file:
                self._archive.add(entry.name, file, size=entry.size, metadata=entry.about)

    def finish(self) -> None:
        for name, about in self._times.items():  # adding files has touched them
            self._archive.set_metadata(name, about)
        self._stack.close()

    def abort(self, error: BaseException | None = None) -> None:
        cause = error or InterruptedError("given up")
        self._stack.__exit__(type(cause), cause, cause.__traceback__)


class _Exactly(io.RawIOBase):
    """A stream that must have the size that was announced, neither more nor less."""

    def __init__(self, entry: Entry, file: BinaryIO) -> None:
        self._entry, self._file, self._left = entry, file, entry.size

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        piece = self._file.read(len(buffer))
        self._left -= len(piece)
        if self._left < 0 or (not piece and self._left):
            raise ValueError(
                f"{self._entry.name} should have {self._entry.size} bytes and has {'more' if piece else 'fewer'}"
            )
        buffer[: len(piece)] = piece
        return len(piece)


class _FolderSink:
    def __init__(self, path: str, force: bool) -> None:
        self._target = FolderTarget(path, force=force)

    def put(self, entry: Entry) -> None:
        if entry.is_dir:
            self._target.make_dir(entry.name, entry.about)
        elif entry.size <= LARGE_BYTES:
            self._target.write(entry.name, _content(entry), entry.about)
        else:
            with entry.open() as file:
                self._target.write(entry.name, cast("BinaryIO", _Exactly(entry, file)), entry.about)

    def finish(self) -> None:
        self._target.finish()

    def abort(self, error: BaseException | None = None) -> None:
        pass  # what is in the folder may be the user's own


class _TarSink:
    def __init__(self, path: str, kind: str) -> None:
        self._path, self._beside = path, name_beside(path)
        compress = require("zstandard", ".tar.zst").ZstdCompressor() if kind == "tar.zst" else None
        self._stack = contextlib.ExitStack()
        self._file = open(self._beside, "xb")  # noqa: SIM115  # closed with the stack
        self._stack.callback(self._file.close)
        if compress is not None:
            stream = self._stack.enter_context(compress.stream_writer(self._file, closefd=False))
            tar = tarfile.open(fileobj=stream, mode="w|", format=tarfile.PAX_FORMAT)  # noqa: SIM115
        else:
            how: Any = "w:" + kind.partition(".")[2]
            tar = tarfile.open(fileobj=self._file, mode=how, format=tarfile.PAX_FORMAT)  # noqa: SIM115
        self._tar = self._stack.enter_context(tar)

    def put(self, entry: Entry) -> None:
        info = tarfile.TarInfo(entry.name)
        about = entry.about
        info.type = tarfile.DIRTYPE if entry.is_dir else tarfile.REGTYPE
        info.mode = stat.S_IMODE(about.mode) if about.mode is not None else (0o755 if entry.is_dir else 0o644)
        info.uid, info.gid = about.uid or 0, about.gid or 0
        info.mtime = (about.mtime_ns or 0) / 1e9
        if entry.is_dir:
            self._tar.addfile(info)
            return
        info.size = entry.size
        with entry.open() as file:
            self._tar.addfile(info, file)

    def finish(self) -> None:
        self._stack.close()
        os.replace(self._beside, self._path)

    def abort(self, error: BaseException | None = None) -> None:
        with contextlib.suppress(Exception):
            self._stack.close()
        os.unlink(self._beside)


class _ZipSink:
    def __init__(self, path: str) -> None:
        self._path, self._beside = path, name_beside(path)
        self._zip = zipfile.ZipFile(self._beside, "x", zipfile.ZIP_STORED, strict_timestamps=False)

    def put(self, entry: Entry) -> None:
        moment = time.gmtime((entry.about.mtime_ns or 0) // 1_000_000_000)[:6]
        name = f"{entry.name}/" if entry.is_dir else entry.name
        info = zipfile.ZipInfo(name, moment if moment[0] >= 1980 else (1980, 1, 1, 0, 0, 0))
        mode = entry.about.mode if entry.about.mode is not None else (0o755 if entry.is_dir else 0o644)
        info.external_attr = (stat.S_IMODE(mode) | (stat.S_IFDIR if entry.is_dir else stat.S_IFREG)) << 16
        if entry.is_dir:
            self._zip.writestr(info, b"")
            return
        info.file_size = entry.size
        with entry.open() as file, self._zip.open(info, "w", force_zip64=entry.size > _FREE_BYTES) as out:
            while piece := file.read(_PIECE):
                out.write(piece)

    def finish(self) -> None:
        self._zip.close()
        os.replace(self._beside, self._path)

    def abort(self, error: BaseException | None = None) -> None:
        with contextlib.suppress(Exception):
            self._zip.close()
        os.unlink(self._beside)
