"""What can go wrong; every error is also the builtin one that says the same."""

from __future__ import annotations

import contextlib
import sqlite3
from typing import TYPE_CHECKING, Any

from headrace import errors

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = [
    "BarecatError",
    "BarecatIntegrityError",
    "DirectoryNotEmptyBarecatError",
    "FileExistsBarecatError",
    "FileNotFoundBarecatError",
    "FileTooLargeBarecatError",
    "IsADirectoryBarecatError",
    "NotADirectoryBarecatError",
    "NotEnoughSpaceBarecatError",
]


class BarecatError(Exception):
    """Root of all errors of an archive."""

    _WORDS = "{}"

    def __init__(self, subject: Any) -> None:
        super().__init__(self._WORDS.format(subject))

    def __str__(self) -> str:
        return str(self.args[0])

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.args)


def _rebuild(cls: type[BarecatError], args: tuple[Any, ...]) -> BarecatError:
    error = cls.__new__(cls, *args)
    error.args = args
    return error


class FileExistsBarecatError(BarecatError, FileExistsError):
    """There is something of this name already."""

    _WORDS = "File already exists: {}"


class DuplicateBarecatError(FileExistsBarecatError, sqlite3.IntegrityError):
    """Two archives that are merged have a file of the same name."""


class FileNotFoundBarecatError(BarecatError, FileNotFoundError):
    """There is nothing of this name."""

    _WORDS = "File not found: {}"


class DirectoryNotEmptyBarecatError(BarecatError, OSError):
    """A directory has something in it."""

    _WORDS = "Directory not empty: {}"


class IsADirectoryBarecatError(BarecatError, IsADirectoryError):
    """A directory was used as a file."""

    _WORDS = "Is a directory: {}"


class NotADirectoryBarecatError(BarecatError, NotADirectoryError):
    """A file was used as a directory."""


class BarecatIntegrityError(BarecatError, ValueError):
    """The bytes of a file are not those that were stored."""


class BarecatFormatError(BarecatError, ValueError):
    """An archive is not what it should be, or cannot be used in this way."""


class NotEnoughSpaceBarecatError(BarecatError, OSError):
    """There is no room for a file."""


class FileTooLargeBarecatError(BarecatError, ValueError):
    """A file is larger than a shard may be."""

    def __init__(self, size: int, shard_size_limit: int) -> None:
        problem = f"File of size {size} is too large to fit into a shard (shard_size_limit={shard_size_limit})"
        super().__init__(f"{problem}; raise the limit, or reshard the archive with a larger one")


@contextlib.contextmanager
def translated() -> Iterator[None]:
    """Headrace's own errors under the names that are known here."""
    try:
        yield
    except errors.EntryExistsError as error:
        raise FileExistsBarecatError(error.name) from error
    except errors.EntryNotFoundError as error:
        raise FileNotFoundBarecatError(error.name) from error
    except errors.EntryIsDirectoryError as error:
        raise IsADirectoryBarecatError(error.name) from error
    except errors.EntryIsFileError as error:
        raise NotADirectoryBarecatError(f"{error.name!r} or a parent exists as a file") from error
    except errors.DirectoryNotEmptyError as error:
        raise DirectoryNotEmptyBarecatError(error.name) from error
    except errors.FileTooLargeError as error:
        raise FileTooLargeBarecatError(error.size_bytes, error.limit) from error
    except errors.CorruptFileError as error:
        raise BarecatIntegrityError(f"CRC32C mismatch for {error.name}: {error.problem}. {error.fix}") from error
    except errors.FormatError as error:
        raise BarecatFormatError(str(error)) from error
