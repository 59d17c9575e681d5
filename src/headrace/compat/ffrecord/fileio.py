"""Reading and writing .ffr files with FFRecord's calls.

Contract. A reader may be used by any number of threads, in forked children, and after pickling, which opens the files
again. A writer belongs to one thread; the file gets its name when ``close`` succeeded. One that is let go unclosed is
closed when it is complete, and thrown away, with a warning, when it is not; a forked child's copy does neither.
"""

from __future__ import annotations

import fcntl
import operator
import os
import struct
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, Self

import numpy as np
import numpy.typing as npt

from headrace.compat.ffrecord._errors import TRANSLATED, NoSuchSampleError, translated
from headrace.compat.passed_on import pass_on
from headrace.errors import WriteError
from headrace.formats.ffr import FfrReader, FfrWriter
from headrace.formats.ffr.layout import SUFFIX, missing_part, part_paths, read_layout
from headrace.storage import open_stored

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from headrace.errors import PathLike

__all__ = ["FileReader", "FileWriter", "checkFsAlign"]
pass_on(globals(), "Path os")

_CHECK_FS_ALIGN = 2147772004  # a request that 3FS answers


def checkFsAlign(fd: int) -> bool:
    """The file system of an open file aligns direct reads itself, as 3FS does."""
    answer = bytearray(4)
    try:
        fcntl.ioctl(fd, _CHECK_FS_ALIGN, answer)
    except (OSError, ValueError):
        return False
    return bool(struct.unpack("i", answer)[0] == 1)


class FileReader:
    """The samples of a file, of several, or of all .ffr files of a folder, counted one file after the other.

    Args:
        fname: a path, or a list of paths of files.
        check_data: check the header when opening, and every sample that is read.

    Example:
        >>> import os, tempfile
        >>> path = os.path.join(tempfile.mkdtemp(), "x.ffr")
        >>> with FileWriter(path, 2) as writer:
        ...     writer.write_one(b"zero")
        ...     writer.write_one(b"one")
        >>> reader = FileReader(path)
        >>> [sample.tobytes() for sample in reader.read([1, 0])]
        [b'one', b'zero']
    """

    def __init__(self, fname: PathLike | Sequence[PathLike], check_data: bool = True) -> None:
        self._fnames = _find_files(fname)
        self._check_data = bool(check_data)
        self._reader = self._open()

    def _open(self) -> FfrReader:
        try:
            return FfrReader(self._fnames, checksums=self._check_data)
        except TRANSLATED as error:
            raise translated(error) from None

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_reader"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._reader = self._open()

    @property
    def native(self) -> FfrReader:
        """The reader behind it, which can do more."""
        return self._reader

    @property
    def n(self) -> int:
        """How many samples there are, in all files."""
        return len(self._reader)

    @property
    def fnames(self) -> list[str]:
        """The files."""
        return list(self._fnames)

    @property
    def check_data(self) -> bool:
        """Every sample that is read is checked."""
        return self._check_data

    def read(self, indices: Iterable[int]) -> list[npt.NDArray[np.uint8]]:
        """Read any number of samples, each into an array of its own."""
        try:
            return self._reader.read(_as_array(indices))
        except TRANSLATED as error:
            raise translated(error) from None

    def read_one(self, index: int) -> npt.NDArray[np.uint8]:
        """Read one sample."""
        return self.read((operator.index(index),))[0]

    def validate(self) -> None:
        """Raise RuntimeError if a header has not its checksum, or its offsets cannot be right."""
        for number, path in enumerate(self._fnames):
            try:
                file = open_stored(path) if self._reader.is_closed else self._reader.stored(number)
                read_layout(file, is_checked=True)
            except TRANSLATED as error:
                raise translated(error) from None

    def get_offsets(self, file_index: int) -> npt.NDArray[np.int64]:
        """Where each sample of a file begins, and the size of the file; the caller's own array."""
        return self._reader.offsets(self._checked_file(file_index))

    def get_checksums(self, file_index: int) -> npt.NDArray[np.uint32]:
        """CRC-32 of each sample of a file; the caller's own array."""
        return self._reader.checksums(self._checked_file(file_index))

    def _checked_file(self, file_index: int) -> int:
        number = operator.index(file_index)
        if not 0 <= number < len(self._fnames):
            raise NoSuchSampleError(f"file {number} does not exist; files are 0 to {len(self._fnames) - 1}")
        return number

    def close(self) -> None:
        """Let go of the files; does nothing when that is done already."""
        self._reader.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: Any) -> None:
        self.close()

    def __repr__(self) -> str:
        more = f" and {len(self._fnames) - 1} more" if len(self._fnames) > 1 else ""
        return f"<FileReader {self._fnames[0]!r}{more}: {self.n:,} samples>"


def _find_files(fname: PathLike | Sequence[PathLike]) -> list[str]:
    if isinstance(fname, str | os.PathLike):
        path = os.fspath(fname)
        paths = _parts_of(path) if os.path.isdir(path) else [path]
    elif isinstance(fname, list | tuple):
        paths = [str(part) for part in fname]
    else:
        raise TypeError(f"fname must be a path or a list of paths, got {type(fname).__name__}")
    if not paths:
        raise AssertionError(f"fname={fname!r} names no {SUFFIX} files")
    for path in paths:
        if not os.path.isfile(path):
            raise AssertionError(f"{path} is not a file" if os.path.exists(path) else f"{path} does not exist")
        if os.path.splitext(path)[1] != SUFFIX:
            raise AssertionError(f"the name of {path} must end with {SUFFIX}")
    return paths


def _parts_of(folder: str) -> list[str]:
    paths = [str(Path(path)) for path in part_paths(folder)]
    if (missing := missing_part(paths)) is not None:
        problem = f"{folder}: {missing} is missing among the {len(paths)} parts that are there"
        warnings.warn(problem, RuntimeWarning, stacklevel=4)
    return paths


def _as_array(indices: Iterable[int]) -> npt.NDArray[np.int64]:
    if isinstance(indices, np.ndarray) and indices.dtype.kind in "iu":
        return indices
    try:
        return np.fromiter(map(operator.index, indices), np.int64)
    except OverflowError:
        raise NoSuchSampleError("there is no sample of a number as large as one of the indices") from None
    except TypeError as error:
        raise TypeError(f"indices must be a list of integers, got {type(indices).__name__} ({error})") from None


class FileWriter:
    """Writes an .ffr file, byte for byte as FFRecord does; it appears when ``close`` succeeded, or not at all.

    Args:
        fname: where the file goes; an existing one is replaced.
        n: the number of samples that will be written; None when it is not known.
    """

    def __init__(self, fname: PathLike, n: int | None = None) -> None:
        if not isinstance(fname, str | os.PathLike):
            raise AssertionError(f"fname must be a path, got {type(fname).__name__}")
        path = os.fspath(fname)
        if os.path.splitext(path)[1] != SUFFIX:
            raise AssertionError(f"fname must end with {SUFFIX}, got {path!r}")
        self._owner = os.getpid()
        try:
            self._writer = FfrWriter(path, None if n is None else operator.index(n))
        except OSError as error:
            raise translated(error) from None

    def __reduce__(self) -> NoReturn:
        self._writer.__reduce__()

    @property
    def native(self) -> FfrWriter:
        """The writer behind it."""
        return self._writer

    @property
    def n(self) -> int | None:
        """The number of samples that was announced."""
        return self._writer.n

    @property
    def count(self) -> int:
        """Samples written so far."""
        return len(self._writer)

    def write_one(self, data: Any) -> None:
        """Add a sample: all bytes of any object that has a buffer, in C order."""
        try:
            self._writer.append(data)
        except OSError as error:
            raise translated(error) from None

    def _is_complete(self) -> bool:
        return self.n is None or self.count == self.n

    def close(self) -> None:
        """Finish the file and give it its name; does nothing when that is done already.

        Raises:
            WriteError: samples are missing. They can still be written.
        """
        if self._writer.is_open and not self._is_complete():
            raise WriteError(
                f"{self._writer.path}: the file was announced with {self.n} samples, and {self.count} were written; "
                "write the others before closing it. There is no file yet",
                sample=self.count,
            )
        try:
            self._writer.close()
        except OSError as error:
            raise translated(error) from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *exc_info: Any) -> None:
        try:
            if kind is None:
                self.close()
        finally:
            self._writer.abort()

    def __del__(self) -> None:
        writer = getattr(self, "_writer", None)  # not there when __init__ has failed
        if writer is None or not writer.is_open or self._owner != os.getpid():
            return
        if self.n is not None and self._is_complete():
            writer.close()
            return
        writer.abort()
        problem = f"{writer.path}: the writer was not closed, so there is no file; {self.count} samples are lost"
        warnings.warn(problem, ResourceWarning, stacklevel=2, source=self)
