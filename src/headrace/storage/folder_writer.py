"""Files below a folder: the only way in which headrace writes what comes out of archives, tars, zips and datasets.

Contract: one thread. Whatever the names say and whatever lies in the folder, nothing outside of it is touched: each
directory is opened by its descriptor, from the one above it, and a link is never followed. A file appears when it is
complete, and one that is replaced is there, old or new, at every moment. What killed processes have left in a directory
goes when the first file is written there. Files are not forced onto the disk one by one; that would take 100 times as
long.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
import weakref
from collections import OrderedDict
from typing import TYPE_CHECKING

from headrace.progress import format_count
from headrace.storage.leftovers import is_hidden, remove_leftovers_in
from headrace.storage.new_file import NewFile, kept_mode
from headrace.storage.remote_path import check_local

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headrace.errors import PathLike
    from headrace.types import Buffer

__all__ = ["FolderWriter"]

_OPEN_DIRECTORIES = 128
_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class FolderWriter:
    """Writes files and directories below a folder, by names with slashes.

    Args:
        folder: made if it is missing; may itself be reached by links.

    Example:
        >>> import pathlib, tempfile
        >>> folder = tempfile.mkdtemp()
        >>> with FolderWriter(folder) as writer:
        ...     writer.write("a/b.txt", [b"hello"])
        >>> pathlib.Path(folder, "a", "b.txt").read_text()
        'hello'
    """

    def __init__(self, folder: PathLike) -> None:
        check_local(folder)
        self.folder = os.fspath(folder)
        self.files = 0
        os.makedirs(self.folder, exist_ok=True)
        top = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._open: OrderedDict[str, int] = OrderedDict({"": top})
        self._swept: set[str] = set()  # directories without leftovers
        self._finalizer = weakref.finalize(self, _close_all, self._open)

    def close(self) -> None:
        """Let go of the directories."""
        self._finalizer()

    def __enter__(self) -> FolderWriter:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self.close()
        if isinstance(error, KeyboardInterrupt):
            self.note_interrupt(error)

    def note_interrupt(self, error: BaseException) -> None:
        """Add to an interrupt what was done before it; the command says so."""
        if self.files:
            are = "is" if self.files == 1 else "are"
            error.add_note(
                f"{self.done} to {self.folder} and {are} complete; the rest is missing, run it again with --force"
            )

    def path_of(self, name: str) -> str:
        """Where a name is, for messages."""
        return os.path.join(self.folder, name)

    def make_dir(self, name: str) -> None:
        """Make a directory, and those above it, where they are missing."""
        self._directory(name)

    def exists(self, name: str) -> bool:
        """There is a file, directory or link of this name; links on the way to it are not followed."""
        parent, last = _split(name)
        try:
            os.stat(last, dir_fd=self._directory(parent, is_made=False), follow_symlinks=False)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def write(
        self,
        name: str,
        pieces: Iterable[Buffer],
        *,
        replace: bool = False,
        mode: int | None = None,
        mtime_ns: int | None = None,
    ) -> None:
        """Write a file; it appears when the last piece is in it.

        Args:
            name: of the file; directories above it are made.
            pieces: the content. An error that they raise leaves everything as it was.
            replace: a file of this name is replaced; otherwise that is an error, as a link or directory always is.
            mode: permissions; by default those of the file that is replaced, or what the umask leaves.
            mtime_ns: time of the last change; by default now.
        """
        parent, last = _split(name)
        try:
            directory = self._directory(parent)
            if parent not in self._swept:
                remove_leftovers_in(directory)
                self._swept.add(parent)
            # A list is short work; then the last step tells early enough that there is such a file.
            old = None if isinstance(pieces, list) and not replace else _look_at(directory, last)
            if old is not None and not replace:
                raise FileExistsError(f"{self.path_of(name)} exists; give --force to replace it")
            if old is not None and not stat.S_ISREG(old.st_mode):
                raise self._in_the_way(name, old, "file")
            new = NewFile(directory, last, is_private=mode is not None or old is not None)
            try:
                new.create(is_hidden=old is not None)
                for piece in pieces:
                    _write_whole(new.fd, piece)
                if mode is None and old is not None:
                    mode = kept_mode(new.fd, old)
                if mode is not None:
                    os.fchmod(new.fd, mode)
                if mtime_ns is not None:
                    os.utime(new.fd, ns=(mtime_ns, mtime_ns))
                new.give_name(replace=replace)
            finally:
                new.close()
        except OSError as error:
            raise self._failure(error, name) from error.__cause__
        self.files += 1

    def _failure(self, error: OSError, name: str) -> OSError:
        """The same error, saying which file it was and what became of it."""
        last = name.rpartition("/")[2]
        is_ours = error.filename in (None, last, ".") or is_hidden(str(error.filename))
        is_ours = is_ours or str(error.filename).startswith("/proc/self/fd/")
        if error.errno is None or not is_ours:
            return error  # it speaks for itself, or is about what is read
        if isinstance(error, FileExistsError):
            return FileExistsError(f"{self.path_of(name)} exists; give --force to replace it")
        return self._told(error, name, "file")

    def _told(self, error: OSError, name: str, what: str) -> OSError:
        """The same error with the whole path, saying what is there now and what to do."""
        before = f"{self.done} before it and {'is' if self.files == 1 else 'are'} complete"
        reason = f"{error.strerror}; this {what} was not written, {before if self.files else 'nothing was written'}"
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            reason += f"; make room and run it again{' with --force' if self.files else ''}"
        return type(error)(error.errno, reason, self.path_of(name))

    @property
    def done(self) -> str:
        """How many files were written, in words."""
        return f"{format_count(self.files, 'file')} {'was' if self.files == 1 else 'were'} written"

    def set_dir(self, name: str, *, mode: int | None, mtime_ns: int | None) -> None:
        """Give a directory its permissions and its time: after everything in it was written."""
        directory = self._directory(name)
        if mode is not None:
            os.fchmod(directory, mode)
        if mtime_ns is not None:
            os.utime(directory, ns=(mtime_ns, mtime_ns))

    def remove(self, name: str) -> None:
        """Remove a file or a link, or a directory with all below it."""
        parent, last = _split(name)
        directory = self._directory(parent, is_made=False)
        status = os.stat(last, dir_fd=directory, follow_symlinks=False)
        if not stat.S_ISDIR(status.st_mode):
            os.unlink(last, dir_fd=directory)
            return
        for known in [known for known in self._open if known == name or known.startswith(f"{name}/")]:
            os.close(self._open.pop(known))
        shutil.rmtree(last, dir_fd=directory)

    def _directory(self, name: str, *, is_made: bool = True) -> int:
        """The descriptor of a directory, which stays open for a while."""
        missing = []
        while name not in self._open:  # not by calls: names may be deeper than calls can be
            parent, last = _split(name)
            missing.append((name, last))
            name = parent
        self._open.move_to_end(name)
        directory = self._open[name]
        for below, last in reversed(missing):
            directory = self._open_below(directory, below, last, is_made)
        return directory

    def _open_below(self, above: int, name: str, last: str, is_made: bool) -> int:
        try:
            fd = os.open(last, _FLAGS, dir_fd=above)
        except FileNotFoundError:
            if not is_made:
                raise
            try:
                os.mkdir(last, dir_fd=above)
            except OSError as error:
                raise self._told(error, name, "directory") from None
            self._swept.add(name)
            fd = os.open(last, _FLAGS, dir_fd=above)
        except OSError as error:
            raise self._refusal(error, above, last, name) from None
        self._open[name] = fd
        if len(self._open) > _OPEN_DIRECTORIES:
            oldest = next(known for known in self._open if known)
            os.close(self._open.pop(oldest))
        return fd

    def _refusal(self, error: OSError, above: int, last: str, name: str) -> Exception:
        status = _look_at(above, last)
        if error.errno in (errno.ELOOP, errno.ENOTDIR) and status is not None:
            return self._in_the_way(name, status, "directory")
        return type(error)(error.errno, error.strerror, self.path_of(name))

    def _in_the_way(self, name: str, status: os.stat_result, needed: str) -> Exception:
        path = self.path_of(name)
        if stat.S_ISLNK(status.st_mode):
            return ValueError(
                f"{path} is a link, and nothing is written through links: it may lead out of "
                f"{self.folder}. Remove it, or write elsewhere."
            )
        kind = "directory" if stat.S_ISDIR(status.st_mode) else "file"
        problem = IsADirectoryError if kind == "directory" else NotADirectoryError
        found = kind if stat.S_ISREG(status.st_mode) or kind == "directory" else "pipe, socket or device"
        return problem(f"{path} is a {found}, and a {needed} is needed there. Remove it, or write elsewhere.")


def _close_all(directories: OrderedDict[str, int]) -> None:
    while directories:
        os.close(directories.popitem()[1])


def _split(name: str) -> tuple[str, str]:
    parent, _, last = name.rpartition("/")
    if last in ("", ".", "..") or "\0" in last or (not parent and last != name):
        raise ValueError(f"{name!r} cannot be the name of a file: it leads elsewhere, or nowhere")
    return parent, last


def _look_at(directory: int, name: str) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _write_whole(fd: int, data: Buffer) -> None:
    view = memoryview(data).cast("B")
    while view.nbytes:
        view = view[os.write(fd, view) :]
