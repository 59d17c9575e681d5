"""What writers share that store a sample as a row of values: encoding in workers, counting, names."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from headrace.errors import WriteError
from headrace.formats.contract import BaseWriter, values_in_order
from headrace.types import Field

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

__all__ = ["Row", "RowChunk", "RowEncoder", "RowWriter", "StoreValue"]

Row: TypeAlias = tuple[Any, ...]
StoreValue: TypeAlias = Callable[[Field, Any, int], Any]
"""Turns the value of a field, of the sample with a number, into what the format stores: bytes, a number, an array."""


@dataclass(frozen=True, slots=True)
class RowChunk:
    """Consecutive samples, each a row of values as the format stores them."""

    rows: list[Row]

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def sizes(self) -> npt.NDArray[np.uint64]:
        """Bytes of each value, roughly."""
        return np.array([[_size_of(value) for value in row] for row in self.rows], np.uint64)


def _size_of(value: Any) -> int:
    if isinstance(value, np.ndarray):
        return value.nbytes
    return len(value) if isinstance(value, bytes | bytearray | str) else 8


@dataclass(frozen=True, slots=True)
class RowEncoder:
    """Encodes samples; picklable if ``store`` is, without state, safe in any thread or process."""

    fields: dict[str, Field]
    store: StoreValue

    def __call__(self, samples: Iterable[Any], *, first_index: int) -> RowChunk:
        """Encode samples that will stand from ``first_index`` on."""
        names = list(self.fields)
        return RowChunk(
            [
                self._row(values_in_order(sample, names, index), index)
                for index, sample in enumerate(samples, first_index)
            ]
        )

    def _row(self, values: Sequence[Any], index: int) -> Row:
        row = []
        for (name, field), value in zip(self.fields.items(), values, strict=True):
            try:
                row.append(self.store(field, value, index))
            except Exception as error:
                problem = f"sample {index}, field {name!r}: {type(error).__name__}: {error}"
                raise WriteError(problem, sample=index) from error
        return tuple(row)


class RowWriter(BaseWriter):
    """Takes samples and hands rows to ``_put``; ``_finish`` and ``_discard`` end the file.

    Args:
        fields: name to field, in order.
        store: what the format stores of a value; a function at the top of a module, so that processes can use it.
    """

    def __init__(self, fields: Mapping[str, Field], store: StoreValue) -> None:
        for name, field in fields.items():
            if isinstance(field, type) or not isinstance(field, Field):
                raise TypeError(f"fields[{name!r}] must be a field such as Int(), got {field!r}")
        self.fields = dict(fields)
        self.encoder = RowEncoder(self.fields, store)
        self._count = 0
        self._size_bytes = 0
        self._has_names: bool | None = None
        self._is_open = True

    def __len__(self) -> int:
        """Samples taken so far."""
        return self._count

    @property
    def size_bytes(self) -> int:
        """Bytes of the samples taken so far."""
        return self._size_bytes

    def append(self, sample: Any, *, name: str | None = None) -> None:
        """Add one sample."""
        chunk = self.encoder([sample], first_index=len(self))
        self.append_chunk(chunk, names=None if name is None else [name])

    def append_chunk(self, chunk: RowChunk, *, names: Sequence[str] | None = None) -> None:
        """Add samples that ``encoder`` has encoded, and their names; chunks must come in order."""
        if self._has_names not in (None, names is not None):
            raise ValueError("either all samples have a name or none has")
        self._has_names = names is not None
        self._put(chunk.rows, names)
        self._count += len(chunk)
        self._size_bytes += int(chunk.sizes.sum())

    def close(self) -> None:
        """Finish the file and give it its name."""
        if not self._is_open:
            return
        try:
            self._finish()
        except BaseException:
            self.abort()
            raise
        self._is_open = False

    def abort(self) -> None:
        """Throw away what was written; nothing is left behind."""
        if self._is_open:
            self._is_open = False
            self._discard()

    @abstractmethod
    def _put(self, rows: list[Row], names: Sequence[str] | None) -> None:
        """Store samples."""

    @abstractmethod
    def _finish(self) -> None:
        """All samples are stored: complete the file."""

    @abstractmethod
    def _discard(self) -> None:
        """Throw away what was written; ``_finish`` was not called, or has failed."""
