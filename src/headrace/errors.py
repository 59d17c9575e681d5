"""Every exception that headrace raises on purpose.

::

    HeadraceError
    ├── FormatError(ValueError)           a file is not what it says it is
    │   ├── AnnexError                    the annex of a dataset is damaged or belongs to another file
    │   └── UnfinishedError               a writer was killed; what it left must be put in order first
    ├── CorruptSampleError(ValueError)    one sample is damaged; the rest of the file may be fine
    ├── ImageError(ValueError)            a picture cannot be decoded, or cannot be stored as RGB
    ├── SampleTooLargeError(ValueError)   a sample does not fit into a page
    ├── WriteError(RuntimeError)          a sample could not be fetched or encoded; the cause is attached
    │   └── BrokenPicturesError           pictures of a folder cannot be stored; all of them are named
    ├── WorkerDiedError(RuntimeError)     a worker process was killed
    ├── CorruptFileError(ValueError)      one file of an archive is damaged; the rest may be fine
    ├── EntryNotFoundError(FileNotFoundError, KeyError)   an archive has nothing under a name
    ├── EntryExistsError(FileExistsError)                 an archive has something under a name already
    ├── EntryIsDirectoryError(IsADirectoryError)          a directory of an archive is used as a file
    ├── EntryIsFileError(NotADirectoryError)              a file of an archive is used as a directory
    ├── DirectoryNotEmptyError(OSError)   a directory of an archive has something in it
    ├── FileTooLargeError(ValueError)     a file is larger than a shard may be
    ├── ArchiveBusyError(RuntimeError)    somebody else writes to an archive
    ├── DeviceError(RuntimeError)         a GPU failed, has too little memory, or cannot be used in this process
    ├── RemoteError(OSError)              a store does not answer, lets nobody in, or gives other bytes than it should
    │   ├── ChangedError                  an object is another one than when it was opened
    │   └── RefusedError(PermissionError) a store does not let us in
    ├── MissingExtraError(ImportError)    an optional package is needed
    ├── UnknownFormatError(LookupError)   no format fits a path or a name
    └── ClosedError(RuntimeError)         used after close()

Wrong arguments are plain ``ValueError`` and ``TypeError``. A message says where, what was expected, what was
found and what to do; the same facts are attributes.
"""

from __future__ import annotations

import os
import re
from typing import Any

__all__ = [
    "AnnexError",
    "ArchiveBusyError",
    "BrokenPicturesError",
    "ChangedError",
    "ClosedError",
    "CorruptFileError",
    "CorruptSampleError",
    "DeviceError",
    "DirectoryNotEmptyError",
    "EntryExistsError",
    "EntryIsDirectoryError",
    "EntryIsFileError",
    "EntryNotFoundError",
    "FileTooLargeError",
    "FormatError",
    "HeadraceError",
    "ImageError",
    "MissingExtraError",
    "RefusedError",
    "RemoteError",
    "SampleTooLargeError",
    "UnfinishedError",
    "UnknownFormatError",
    "WorkerDiedError",
    "WriteError",
]

PathLike = str | os.PathLike[str]
_SHOWN = 5  # of many things, in one message


class HeadraceError(Exception):
    """Root of all headrace errors."""

    def __reduce__(self) -> tuple[Any, ...]:
        # Errors travel between processes; their __init__ takes keywords, which the default cannot rebuild.
        return _rebuild, (type(self), self.args, self.__dict__)


def _rebuild(cls: type[HeadraceError], args: tuple[Any, ...], state: dict[str, Any]) -> HeadraceError:
    error = cls.__new__(cls, *args)
    error.args = args
    error.__dict__.update(state)
    return error


def shown_url(path: str) -> str:
    """A path or URL without what must not be printed: names and passwords, signatures.

    Example:
        >>> shown_url("https://me:secret@host/x.tar?X-Amz-Signature=0123"), shown_url("a/x.tar")
        ('https://host/x.tar', 'a/x.tar')
    """
    scheme, mark, rest = str(path).partition("://")
    if not mark or scheme.lower() not in ("http", "https"):
        return str(path)
    host, slash, inside = re.split("[?#]", rest, maxsplit=1)[0].partition("/")
    return f"{scheme}{mark}{host.rpartition('@')[2]}{slash}{inside}"


def _sentence(where: str, problem: str, fix: str) -> str:
    text = f"{where}: {problem}."
    return f"{text} {fix}" if fix else text


class FormatError(HeadraceError, ValueError):
    """A file is not what it says it is.

    Attributes:
        path: the file.
        offset: the byte at which it was noticed, if there is one.
        problem: what was expected and what was found.
        fix: what to do about it.
    """

    def __init__(self, path: PathLike, *, problem: str, offset: int | None = None, fix: str = "") -> None:
        self.path = os.fspath(path)
        self.offset = offset
        self.problem = problem
        self.fix = fix
        at = "" if offset is None else f" (at byte {offset})"
        super().__init__(_sentence(shown_url(self.path), problem + at, fix))


class AnnexError(FormatError):
    """The annex of a dataset is damaged, or belongs to another file."""


class UnfinishedError(FormatError):
    """A writer was killed, and what it left beside a file must be put in order before the file can be read.

    Reading changes nothing, so it does not do that by itself; ``headrace repair PATH`` does.

    Attributes:
        path: the archive.
        left: the file that tells of it, beside the archive.
    """

    def __init__(self, path: PathLike, *, left: PathLike, problem: str) -> None:
        self.left = os.fspath(left)
        super().__init__(
            path, problem=problem, fix=f"Put it in order with: headrace repair {shown_url(os.fspath(path))}"
        )


class CorruptSampleError(HeadraceError, ValueError):
    """One sample is damaged.

    Attributes:
        path: the file.
        sample: index of the sample.
        field: name of the field, if one is to blame.
        offset: byte in the file at which the sample's data begin, if known.
        problem: what was expected and what was found.
        fix: what to do about it.
    """

    def __init__(
        self,
        path: PathLike,
        *,
        sample: int,
        problem: str,
        field: str | None = None,
        offset: int | None = None,
        fix: str = "",
    ) -> None:
        self.path = os.fspath(path)
        self.sample = sample
        self.field = field
        self.offset = offset
        self.problem = problem
        self.fix = fix
        where = f"{shown_url(self.path)}: sample {sample}"
        if field is not None:
            where += f", field {field!r}"
        if offset is not None:
            where += f", byte {offset}"
        super().__init__(_sentence(where, problem, fix))


class CorruptFileError(HeadraceError, ValueError):
    """One file of an archive is damaged.

    Attributes:
        path: the archive.
        name: the file inside it.
        problem: what was expected and what was found.
        fix: what to do about it.
    """

    def __init__(self, path: PathLike, *, name: str, problem: str, fix: str = "") -> None:
        self.path = os.fspath(path)
        self.name = name
        self.problem = problem
        self.fix = fix
        super().__init__(_sentence(f"{shown_url(self.path)}: {name}", problem, fix))


class _EntryError(HeadraceError):
    """Something about one name in an archive; ``path`` is the archive, ``name`` what is inside."""

    _problem = ""

    def __init__(self, path: PathLike, name: str) -> None:
        self.path = os.fspath(path)
        self.name = name
        super().__init__(f"{shown_url(self.path)}: {name or 'the root'} {self._problem}")

    def __str__(self) -> str:
        return str(self.args[0])  # a KeyError would show it in quotes


class EntryNotFoundError(_EntryError, FileNotFoundError, KeyError):
    """An archive has nothing under a name."""

    _problem = "does not exist"


class EntryExistsError(_EntryError, FileExistsError):
    """An archive has something under a name already."""

    _problem = "exists already"


class EntryIsDirectoryError(_EntryError, IsADirectoryError):
    """A directory of an archive was used as a file."""

    _problem = "is a directory"


class EntryIsFileError(_EntryError, NotADirectoryError):
    """A file of an archive was used as a directory."""

    _problem = "is a file, or lies below one"


class DirectoryNotEmptyError(_EntryError, OSError):
    """A directory of an archive has something in it."""

    _problem = "is not empty"


class FileTooLargeError(HeadraceError, ValueError):
    """A file is larger than a shard may be.

    Attributes:
        path: the archive.
        name: the file.
        size_bytes: of the file.
        limit: of the shards.
    """

    def __init__(self, path: PathLike, *, name: str, size_bytes: int, limit: int) -> None:
        self.path = os.fspath(path)
        self.name = name
        self.size_bytes = size_bytes
        self.limit = limit
        super().__init__(
            f"{shown_url(self.path)}: {name} has {size_bytes} bytes, a shard holds at most {limit}, and a file must "
            "fit into one. Use a larger shard size."
        )


class ArchiveBusyError(HeadraceError, RuntimeError):
    """Somebody else writes to an archive, or to a set of files that is resumed."""


class ImageError(HeadraceError, ValueError):
    """A picture cannot be decoded, or cannot be stored as 8-bit RGB without guessing."""


class SampleTooLargeError(HeadraceError, ValueError):
    """A sample does not fit into one page.

    Attributes:
        sample: index of the sample.
        size_bytes: what the sample needs.
        page_size: what a page has.
        needed_page_size: the smallest page size that would do, or None when no page can be so large.
    """

    def __init__(self, *, sample: int, size_bytes: int, page_size: int, needed_page_size: int | None) -> None:
        self.sample = sample
        self.size_bytes = size_bytes
        self.page_size = page_size
        self.needed_page_size = needed_page_size
        cure = (
            f"Write with page_size={needed_page_size}, or leave page_size out."
            if needed_page_size is not None
            else "No page can be that large: split the sample, or store it compressed."
        )
        super().__init__(
            f"sample {sample} takes {size_bytes} bytes, and all data of a sample must fit on one page "
            f"of {page_size} bytes. {cure}"
        )


class WriteError(HeadraceError, RuntimeError):
    """A sample could not be fetched or encoded; ``__cause__`` is the original exception.

    Attributes:
        sample: index of the sample in the new file.
        source: where the sample came from (index in the source dataset, or a name), if that differs.
    """

    def __init__(self, problem: str, *, sample: int | None = None, source: object = None) -> None:
        self.sample = sample
        self.source = source
        super().__init__(problem)


class BrokenPicturesError(WriteError):
    """Pictures of a folder cannot be stored, so nothing was written.

    Attributes:
        path: the folder.
        broken: a line for each picture: its path below the folder, and what is wrong with it.
    """

    def __init__(self, path: PathLike, *, broken: list[str], total: int) -> None:
        self.path = os.fspath(path)
        self.broken = broken
        count = "1 picture" if len(broken) == 1 else f"{len(broken)} pictures"
        shown = "; ".join(broken[:_SHOWN]) + (f"; and {len(broken) - _SHOWN} more" if len(broken) > _SHOWN else "")
        fix = "Repair or remove what is broken, or leave it out (skip_broken=True, --skip-broken)."
        problem = f"{count} of {total} cannot be stored, and nothing was written: {shown}"
        super().__init__(_sentence(shown_url(self.path), problem, fix if len(broken) < total else ""))


class WorkerDiedError(HeadraceError, RuntimeError):
    """A worker process ended without an answer: killed, out of memory, or crashed.

    Attributes:
        fix: what to do about it.
    """

    def __init__(self, fix: str) -> None:
        self.fix = fix
        problem = "a worker process ended without an answer: it was killed, ran out of memory or crashed"
        super().__init__(f"{problem}. Nothing was written. {fix}")


class DeviceError(HeadraceError, RuntimeError):
    """A GPU failed, has too little memory for a batch, or cannot be used in this process."""


class RemoteError(HeadraceError, OSError):
    """A store does not answer, does not let us in, or gives other bytes than it should.

    Attributes:
        url: the object.
        problem: what was expected and what was found.
        fix: what to do about it.
        status: of HTTP, with which the store answered, if it did.
    """

    status: int | None = None

    def __init__(self, url: PathLike, *, problem: str, fix: str = "") -> None:
        self.url = os.fspath(url)
        self.problem = problem
        self.fix = fix
        super().__init__(_sentence(shown_url(self.url), problem, fix))


class RefusedError(RemoteError, PermissionError):
    """A store does not let us in; some say the same of an object that does not exist."""


class ChangedError(RemoteError):
    """An object is another one than when it was opened: it was replaced, or deleted."""


class MissingExtraError(HeadraceError, ImportError):
    """An optional package is needed and not installed."""

    def __init__(self, package: str, *, extra: str, needed_by: str) -> None:
        self.package = package
        self.extra = extra
        super().__init__(f"{needed_by} needs the {package!r} package. Install it with: pip install 'headrace[{extra}]'")


class UnknownFormatError(HeadraceError, LookupError):
    """No format fits a path or a name."""


class ClosedError(HeadraceError, RuntimeError):
    """Something was used after it was closed."""
