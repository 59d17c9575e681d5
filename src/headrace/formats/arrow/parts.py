"""Where the columns of a table come from: parts of it, one after the other, each column on its own."""

from __future__ import annotations

import contextlib
import os
import threading
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from headrace.errors import FormatError, HeadraceError
from headrace.registry import require

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from headrace.storage import StoredFile
    from headrace.types import Announcement, IndexArray

__all__ = ["ForkedLock", "Parts", "SeveralParts", "told"]

_REMEDY = "The file is damaged; write or copy it again."


class Parts(Protocol):
    """Row groups of a Parquet file, record batches of an Arrow file."""

    path: str
    schema: Any
    counts: IndexArray
    word: str
    """What a part is called."""
    size_bytes: int
    is_mapped: bool
    """Columns are looked at in the mapped file; nothing has to be read as a whole."""

    def load(self, part: int, column: int) -> tuple[Any, npt.NDArray[np.uint8] | None]:
        """A column of a part, and the mapped file if it may lie there; FormatError when it cannot be read."""
        ...

    def files(self) -> list[StoredFile]:
        """The files, opened."""
        ...

    def announce(self, part: int, column: int) -> Announcement | None:
        """Begin to bring what ``load`` reads from a store; None where there is nothing to bring."""
        ...

    def parts_of_files(self) -> list[int]:
        """How many parts are in each of them."""
        ...


@contextlib.contextmanager
def told(path: str, what: str) -> Iterator[None]:
    """Whatever pyarrow raises inside the block becomes a FormatError that says where."""
    pyarrow = require("pyarrow", "reading Arrow data")
    try:
        yield
    except HeadraceError:
        raise  # also that a store does not answer
    except (pyarrow.ArrowException, ValueError, OSError, LookupError, TypeError, OverflowError, MemoryError) as error:
        reason = str(error).strip().partition("\n")[0].rstrip(".") or type(error).__name__
        raise FormatError(path, problem=f"{what} cannot be read ({reason})", fix=_REMEDY) from error


class ForkedLock:
    """A lock that a forked process finds open."""

    def __init__(self) -> None:
        self._process, self._lock = os.getpid(), threading.Lock()

    def __enter__(self) -> None:
        if self._process != os.getpid():
            self._process, self._lock = os.getpid(), threading.Lock()
        self._lock.acquire()

    def __exit__(self, *problem: object) -> None:
        self._lock.release()


class SeveralParts:
    """The parts of several files of one schema, one after the other."""

    def __init__(self, path: str, members: list[Parts]) -> None:
        self.path, self._members = path, members
        self.schema, self.word = members[0].schema, members[0].word
        for one in members[1:]:
            if not one.schema.equals(self.schema):
                problem = f"its columns are not those of {os.path.basename(members[0].path)}"
                raise FormatError(one.path, problem=problem, fix="Files of one dataset must have one schema.")
        self.counts = np.concatenate([one.counts for one in members])
        self._ends = np.cumsum([len(one.counts) for one in members])
        self.size_bytes = sum(one.size_bytes for one in members)
        self.is_mapped = all(one.is_mapped for one in members)

    def load(self, part: int, column: int) -> tuple[Any, npt.NDArray[np.uint8] | None]:
        """A column of a part of one of them."""
        member, number = self._member_of(part)
        return member.load(number, column)

    def _member_of(self, part: int) -> tuple[Parts, int]:
        member = int(np.searchsorted(self._ends, part, side="right"))
        return self._members[member], part - (int(self._ends[member - 1]) if member else 0)

    def announce(self, part: int, column: int) -> Announcement | None:
        """Begin to bring a column of a part of one of them."""
        member, number = self._member_of(part)
        return member.announce(number, column)

    def files(self) -> list[StoredFile]:
        """The files of all."""
        return [file for one in self._members for file in one.files()]

    def parts_of_files(self) -> list[int]:
        """How many parts are in each of them."""
        return [len(one.counts) for one in self._members]
