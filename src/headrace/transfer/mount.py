"""An archive as a read-only file system, through FUSE.

Contract: libfuse calls the operations from several threads at once; the archive allows that. A file that is opened is
checked against its checksum, and one that is damaged cannot be opened (EIO). Up to 64 MiB, what was checked is kept in
memory until the file is closed. A larger file is read through once, when it is first opened; after that its bytes come
from the shard. ``mount_archive`` returns when the file system was unmounted: by Ctrl-C, SIGTERM, or
``fusermount3 -u``. In the background, a process of its own serves it, and ``mount_archive`` returns when the kernel has
accepted it; that process ends when it is unmounted.
"""

from __future__ import annotations

import errno
import itertools
import os
import stat
import sys
import threading
from typing import TYPE_CHECKING, Any

from headrace.errors import CorruptFileError, EntryIsFileError, EntryNotFoundError, FormatError
from headrace.formats.barecat.archive import Archive
from headrace.formats.barecat.index.rows import FileInfo
from headrace.registry import require
from headrace.transfer.extract import CheckedFile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from headrace.errors import PathLike
    from headrace.formats.barecat.index.rows import DirInfo

__all__ = ["ArchiveOperations", "mount_archive"]

_IN_MEMORY_BYTES = 64 << 20
_PIECE_BYTES = 4 << 20
_WRITING = os.O_WRONLY | os.O_RDWR
_PERMISSIONS = 0o777  # set-user-id and the like do not come out of an archive
_BLOCK = 512
_NAME_BYTES = 255
_READY = b"+"
_ENDED_BY_SIGNAL = 8  # what libfuse gives after it has unmounted because of Ctrl-C


class ArchiveOperations:
    """What FUSE asks for; paths begin with a slash.

    Args:
        archive: open for reading.
        on_ready: called when the file system is there.
    """

    use_ns = True

    def __init__(self, archive: Archive, on_ready: Callable[[], None] = lambda: None) -> None:
        self._archive = archive
        self._on_ready = on_ready
        self._contents: dict[int, bytes] = {}
        self._sound: set[tuple[int, int, int, int | None]] = set()  # places of large files that were checked
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()

    def init(self, path: str) -> None:
        """The file system is there."""
        self._on_ready()

    def _stat(self, path: str) -> FileInfo | DirInfo:
        try:
            return self._archive.stat(path)
        except (EntryNotFoundError, UnicodeError):
            raise OSError(errno.ENOENT, path) from None
        except FormatError as error:
            raise OSError(errno.EIO, str(error)) from error

    def getattr(self, path: str, fh: int | None = None) -> dict[str, int]:
        """What ``stat`` shows."""
        info = self._stat(path)
        size = info.size if info.is_file() else info.size_tree  # type: ignore[union-attr]
        kind, usual = (stat.S_IFREG, 0o644) if info.is_file() else (stat.S_IFDIR, 0o755)
        mode = usual if info.mode is None else info.mode & _PERMISSIONS
        when = info.mtime_ns or 0
        return {
            "st_mode": kind | mode,
            "st_size": size if info.is_file() else 0,
            "st_blocks": -(-size // _BLOCK) if info.is_file() else 0,
            "st_nlink": 1 if info.is_file() else 2,
            "st_uid": os.getuid() if info.uid is None else info.uid,
            "st_gid": os.getgid() if info.gid is None else info.gid,
            "st_mtime": when,
            "st_ctime": when,
            "st_atime": when,
        }

    def readdir(self, path: str, fh: int) -> Iterator[str]:
        """Names in a directory; those that no directory can hold are left out."""
        yield from (".", "..")
        try:
            names = self._archive.listdir(path)
        except EntryNotFoundError:
            raise OSError(errno.ENOENT, path) from None
        except EntryIsFileError:
            raise OSError(errno.ENOTDIR, path) from None
        except FormatError as error:
            raise OSError(errno.EIO, str(error)) from error
        yield from filter(_can_be_listed, names)

    def open(self, path: str, flags: int) -> int:
        """Open a file for reading, and check it."""
        if flags & _WRITING:
            raise OSError(errno.EROFS, path)
        info = self._stat(path)
        if not isinstance(info, FileInfo):
            raise OSError(errno.EISDIR, path)
        number = next(self._numbers)
        try:
            content = self._checked(info)
        except (CorruptFileError, FormatError, OSError) as error:
            raise OSError(errno.EIO, str(error)) from error
        if content is not None:
            with self._lock:
                self._contents[number] = content
        return number

    def _checked(self, info: FileInfo) -> bytes | None:
        """Check a file; gives its content if that may stay in memory."""
        if info.size <= _IN_MEMORY_BYTES:
            return self._archive[info.path]
        place = (info.shard, info.offset, info.size, info.crc32c)
        if place not in self._sound:
            with CheckedFile(self._archive, info) as file:
                while file.read(_PIECE_BYTES):
                    pass
            self._sound.add(place)
        return None

    def read(self, path: str, size: int, offset: int, fh: int) -> bytes:
        """A part of a file."""
        content = self._contents.get(fh)
        if content is not None:
            return content[offset : offset + size]
        try:
            data = self._archive.read(path, offset, size)
        except (CorruptFileError, FormatError, OSError) as error:
            raise OSError(errno.EIO, str(error)) from error
        if any(shard.is_cut for shard in list(self._archive.shards.mapped.values())):
            raise OSError(errno.EIO, f"{self._archive.path}: a shard became shorter while it was read")
        return data

    def release(self, path: str, fh: int) -> int:
        """The file was closed."""
        with self._lock:
            self._contents.pop(fh, None)
        return 0

    def statfs(self, path: str) -> dict[str, int]:
        """What ``df`` shows: a full disk of the archive's size."""
        facts = {"f_bsize": _BLOCK, "f_frsize": _BLOCK, "f_namemax": _NAME_BYTES}
        try:
            blocks = -(-self._archive.total_size // _BLOCK)
            return facts | {"f_blocks": blocks, "f_files": self._archive.num_files}
        except FormatError as error:
            raise OSError(errno.EIO, str(error)) from error


def _can_be_listed(name: str) -> bool:
    """A directory can hold this name; one that it cannot would make the kernel refuse all others, too."""
    is_plain = name not in ("", ".", "..") and "/" not in name and "\0" not in name
    return is_plain and len(os.fsencode(name)) <= _NAME_BYTES


def mount_archive(
    path: PathLike,
    directory: PathLike,
    *,
    background: bool = False,
    allow_other: bool = False,
    follow_links: bool = False,
    on_ready: Callable[[], None] = lambda: None,
) -> None:
    """Mount an archive and stay until it is unmounted.

    Args:
        path: the archive.
        directory: where it appears; must exist and be empty.
        background: serve from a process of its own, and return when it is mounted.
        allow_other: other users may look at it, too.
        follow_links: also read shards that are symbolic links.
        on_ready: called when it is mounted.

    Raises:
        OSError: it could not be mounted.
    """
    place = os.path.abspath(directory)
    if not os.path.isdir(place):
        raise NotADirectoryError(f"{place} is not a directory; make it with: mkdir -p {place}")
    if os.listdir(place):
        raise ValueError(f"{place} is not empty; mount on an empty directory")
    fuse = _load()
    where = os.path.abspath(path)

    def serve(on_ready: Callable[[], None]) -> None:
        with Archive(where, follow_links=follow_links) as archive:
            _serve(fuse, archive, place, allow_other, on_ready)

    if not background:
        serve(on_ready)
        return
    Archive(where, follow_links=follow_links).close()  # its errors come from this process
    _start(serve)
    on_ready()


def _serve(fuse: Any, archive: Archive, place: str, allow_other: bool, on_ready: Callable[[], None]) -> None:
    name = archive.path.replace("\\", "\\\\").replace(",", "\\,")  # a comma would begin another option
    options: dict[str, Any] = {"ro": True, "fsname": name, "subtype": "headrace"}
    if allow_other:
        options["allow_other"] = True
    try:
        fuse.FUSE(ArchiveOperations(archive, on_ready), place, foreground=True, **options)
    except RuntimeError as error:
        if error.args == (_ENDED_BY_SIGNAL,):
            return
        raise OSError(
            f"{place}: the file system could not be mounted (FUSE gave {error}); "
            "are you allowed to mount, and is /dev/fuse there?"
        ) from error


def _start(serve: Callable[[Callable[[], None]], None]) -> None:
    """Serve in a process that outlives this one; OSError when it fails before it is ready."""
    answers, answer = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    between = os.fork()
    if between == 0:
        try:
            os.close(answers)
            os.setsid()
            if os.fork() == 0:
                _serve_detached(serve, answer)
        finally:
            os._exit(0)
    os.close(answer)
    os.waitpid(between, 0)
    with os.fdopen(answers, "rb") as file:
        said = file.read()
    if said != _READY:
        raise OSError(said.decode() or "the process that was to serve the file system has ended")


def _serve_detached(serve: Callable[[Callable[[], None]], None], answer: int) -> None:
    def tell() -> None:
        os.write(answer, _READY)
        for stream in (0, 1, 2, answer):  # whoever waits for the end of its output waits no longer
            os.dup2(nowhere, stream)

    nowhere = os.open(os.devnull, os.O_RDWR)
    os.chdir("/")
    try:
        serve(tell)
    except BaseException as error:
        os.write(answer, str(error).encode())  # once it was ready, nobody listens


def _load() -> Any:
    if not os.path.exists("/dev/fuse"):
        raise OSError("/dev/fuse is missing, so nothing can be mounted here; in a container start it with --device")
    try:
        return require("mfusepy", "mounting an archive")
    except (OSError, AttributeError) as error:
        raise OSError(f"libfuse cannot be loaded ({error}); install it, for example: apt install fuse3") from error
