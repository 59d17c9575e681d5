"""Errors of headrace that are RuntimeErrors, too: FFRecord raises nothing else when a file or an index is wrong."""

from __future__ import annotations

from headrace.errors import CorruptSampleError, FormatError

__all__ = ["TRANSLATED", "DamagedFileError", "DamagedSampleError", "FileAccessError", "NoSuchSampleError", "translated"]


class DamagedFileError(FormatError, RuntimeError):
    """A file is not what it says it is."""


class DamagedSampleError(CorruptSampleError, RuntimeError):
    """A sample is damaged."""


class NoSuchSampleError(IndexError, RuntimeError):
    """There is no sample of that number."""


class FileAccessError(OSError, RuntimeError):
    """A file cannot be opened or written."""


_TWINS: dict[type[Exception], type[Exception]] = {
    FormatError: DamagedFileError,
    CorruptSampleError: DamagedSampleError,
    IndexError: NoSuchSampleError,
    OSError: FileAccessError,
}
TRANSLATED = tuple(_TWINS)


def translated(error: Exception) -> Exception:
    """The same error, its facts and its text, as one that is a RuntimeError, too."""
    twin = next(twin for kind, twin in _TWINS.items() if isinstance(error, kind))
    arguments = (error.errno, error.strerror, error.filename) if isinstance(error, OSError) and error.errno else ()
    copy = twin.__new__(twin, *(arguments or error.args))
    copy.args = error.args
    copy.__dict__.update(error.__dict__)
    return copy
