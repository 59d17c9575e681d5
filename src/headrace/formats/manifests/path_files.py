"""Files that a manifest names.

Whoever wrote the manifest must not choose which files of this machine are read: a path stays inside of one folder. It
is relative and has no ``..``; links may be on the way, and what was opened in the end is looked at, not what the path
led to a moment before.
"""

from __future__ import annotations

import contextlib
import os

from headrace.errors import FormatError
from headrace.progress import format_count
from headrace.storage import open_for_reading

__all__ = ["PathFiles"]

_MAX_FILE_BYTES = 2 << 30
_MAX_PATH_CHARS = 4096
_RESTORE = "put it there, or open the manifest with root= the folder that its paths start from"
_ALLOW = "if you trust the manifest, open it with allow_outside=True, or root= the folder that its paths start from"


class PathFiles:
    """Reads files by paths that are relative to a folder.

    Args:
        root: the folder.
        allow_outside: paths may lead out of it.

    Example:
        >>> import pathlib, tempfile
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> _ = (folder / "a.txt").write_bytes(b"hello")
        >>> PathFiles(folder, allow_outside=False).read("a.txt")
        b'hello'
        >>> PathFiles(folder, allow_outside=False).read("../a.txt")
        Traceback (most recent call last):
        ValueError: '../a.txt' leads out of the folder; if you trust the manifest, ...
    """

    def __init__(self, root: str | os.PathLike[str], *, allow_outside: bool) -> None:
        self.root = os.path.abspath(root)
        self.allow_outside = allow_outside
        self._inside = os.path.realpath(self.root).rstrip("/") + "/"

    def read(self, name: str) -> bytes:
        """The content of a file; ValueError says why it cannot be had."""
        path = self._path_of(name)
        try:
            with open(self._open(path, name), "rb", buffering=0) as file:
                size = os.fstat(file.fileno()).st_size
                if size > _MAX_FILE_BYTES:
                    problem = f"{path} has {format_count(size, 'byte')}, and at most {_MAX_FILE_BYTES} are read"
                    raise ValueError(f"{problem}; store it in parts")
                return file.read()
        except FileNotFoundError:
            raise ValueError(f"the file {path} is missing; {_RESTORE}") from None
        except OSError as error:
            raise ValueError(f"the file {path} cannot be read ({error.strerror}); {_RESTORE}") from None

    def place(self, name: str) -> tuple[str, int, int]:
        """The path of a file, its first byte and how many there are; ValueError says why it cannot be had."""
        path = self._path_of(name)
        try:
            fd = self._open(path, name)
        except OSError as error:
            raise ValueError(f"the file {path} cannot be read ({error.strerror}); {_RESTORE}") from None
        try:
            return path, 0, os.fstat(fd).st_size
        finally:
            os.close(fd)

    def is_file(self, name: str) -> bool:
        """A path leads to a file that ``read`` would read."""
        with contextlib.suppress(OSError, ValueError):
            os.close(self._open(self._path_of(name), name))
            return True
        return False

    def _path_of(self, name: str) -> str:
        if not name or "\0" in name or len(name) > _MAX_PATH_CHARS:
            raise ValueError(f"{name[:40]!r} is no path of a file; open with fields= and Text() if it is a text")
        if not self.allow_outside and (name.startswith("/") or ".." in name.split("/")):
            raise ValueError(f"{name!r} leads out of the folder; {_ALLOW}")
        return os.path.join(self.root, name)

    def _open(self, path: str, name: str) -> int:
        try:
            fd = open_for_reading(path, nofollow=False)
        except FormatError as error:
            raise ValueError(f"{path}: {error.problem}; {_RESTORE}") from None
        if self.allow_outside or self._is_inside(fd, path):
            return fd
        os.close(fd)
        raise ValueError(f"{name!r} leads out of the folder by a link; {_ALLOW}")

    def _is_inside(self, fd: int, path: str) -> bool:
        with contextlib.suppress(OSError):
            if os.readlink(f"/proc/self/fd/{fd}").startswith(self._inside):
                return True
        real = os.path.realpath(path)  # where there is no /proc
        with contextlib.suppress(OSError):
            is_same = os.path.samestat(os.fstat(fd), os.stat(real, follow_symlinks=False))
            return is_same and real.startswith(self._inside)
        return False
