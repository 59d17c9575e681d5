"""Arrays of a file as columns: what field each is, and the stored values of some samples."""

from __future__ import annotations

import io
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from headrace._native import gather, gather_into
from headrace.errors import CorruptSampleError, FormatError
from headrace.fields import Bytes, Float, Image, Int, Json, NDArray, Text
from headrace.formats.decodes import Coded
from headrace.formats.npy.header import ArrayHeader, parse_header
from headrace.progress import format_count
from headrace.types import Field, Ragged

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.formats.npy.contents import Content
    from headrace.storage.stored_file import Positions
    from headrace.types import Announcement, IndexArray, StoredSpans, TakeArray

__all__ = ["Column", "NumberColumn", "RaggedColumn", "SavedArray", "column_of", "pictures_of"]

_Spans: TypeAlias = tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint64], npt.NDArray[np.uint64]]
_FIX = "Write it again."
_LAST_CHARACTER = 0x10FFFF
_HELD_BYTES = 64 << 20  # an array of an object that is small, such as labels or places, is brought whole


@dataclass(frozen=True, slots=True)
class SavedArray:
    """An array in a file, looked at and not yet read; the content has exactly the bytes that the header asks for.

    Args:
        path: of the file.
        name: of the array.
        content: its bytes.
        header: what it is.
    """

    path: str
    name: str
    content: Content
    header: ArrayHeader

    @classmethod
    def look_at(cls, path: str, name: str, content: Content) -> SavedArray:
        """Read the header, and compare it with how many bytes there are."""
        header = parse_header(path, f"array {name!r}", content.start())
        expected, found = header.size_bytes + header.data_bytes, content.size_bytes
        if header.dtype is not None and expected != found:
            raise FormatError(
                path,
                offset=min(expected, found),
                problem=f"array {name!r} of {header.dtype} {header.shape} needs {format_count(expected, 'byte')}, "
                f"there are {found}",
                fix="It was cut short, or more was written behind it; save it again.",
            )
        return cls(path, name, content, header)

    def items(self) -> npt.NDArray[np.uint8]:
        """The bytes of all items."""
        return self.content.whole()[self.header.size_bytes :]

    @property
    def is_read_whole(self) -> bool:
        """All of it is in memory once it was read, or at any time."""
        header = self.header
        return self.content.is_here or header.is_fortran or header.data_bytes <= _HELD_BYTES

    def places(self, indices: IndexArray) -> tuple[Positions, Positions]:
        """Where in the content samples begin that lie one after the other, and how long they are."""
        header = self.header
        size = header.data_bytes // header.shape[0] if header.shape[0] else 0
        offsets = indices.astype(np.uint64) * np.uint64(size) + np.uint64(header.size_bytes)
        return offsets, np.full(len(indices), size, np.uint64)

    def rows(self, indices: IndexArray) -> npt.NDArray[Any]:
        """Items of samples as an array of its own, in the byte order of the file."""
        if self.is_read_whole:
            taken: npt.NDArray[Any] = self.array()[indices]
            return taken
        offsets, sizes = self.places(indices)
        out = np.empty(int(sizes.sum()), np.uint8)
        base, starts = self.content.region(offsets, sizes)
        gather_into(base, starts, sizes, out, np.arange(len(indices), dtype=np.uint64) * sizes)
        return np.ndarray((len(indices), *self.header.shape[1:]), self.header.dtype, out)

    def array(self) -> npt.NDArray[Any]:
        """All items as an array, in the byte order of the file; nothing is copied."""
        dtype, shape = self.header.dtype, self.header.shape
        if dtype is None:
            raise ValueError(f"array {self.name!r} holds Python objects")
        return np.ndarray(shape, dtype, self.items(), order="F" if self.header.is_fortran else "C")


class Column(ABC):
    """One field's values.

    Args:
        saved: the array that they come from.
    """

    def __init__(self, saved: SavedArray) -> None:
        self.saved = saved

    def __len__(self) -> int:
        return self.saved.header.shape[0]

    @property
    @abstractmethod
    def field(self) -> Field:
        """What the array is, if nobody knows better."""

    @abstractmethod
    def fits(self, field: Field) -> bool:
        """Whether the values can be read as a field."""

    @abstractmethod
    def stored(self, indices: IndexArray, field: Field) -> Sequence[Any] | npt.NDArray[Any]:
        """Values of samples, as ``ColumnDataset`` wants them."""

    def announce(self, indices: IndexArray) -> Announcement | None:
        """Begin to bring what samples need; None where nothing is read sample by sample."""
        return None if self.saved.is_read_whole else self.saved.content.announce(*self.saved.places(indices))

    def stored_spans(self, indices: IndexArray) -> list[StoredSpans]:
        """What ``announce`` of these samples would bring."""
        return [] if self.saved.is_read_whole else self.saved.content.stored_spans(*self.saved.places(indices))

    @property
    def arrays(self) -> tuple[SavedArray, ...]:
        """What it is made of."""
        return (self.saved,)

    def corrupt(self, index: int, problem: str) -> CorruptSampleError:
        """The error about one sample."""
        return CorruptSampleError(self.saved.path, sample=index, field=self.saved.name, problem=problem)

    def check_text(self, values: npt.NDArray[Any], indices: IndexArray) -> None:
        """Raise CorruptSampleError for texts with a number that is no character; numpy would believe it."""
        numbers = np.ascontiguousarray(values).view(values.dtype.str[0] + "u4").reshape(len(values), -1)
        wrong = np.flatnonzero((numbers > _LAST_CHARACTER).any(axis=1))
        if len(wrong):
            raise self.corrupt(int(indices[wrong[0]]), "it is no text: a character has a number above 0x10FFFF")


class NumberColumn(Column):
    """Numbers, or arrays of them, of one dtype and one shape."""

    def __init__(self, saved: SavedArray) -> None:
        super().__init__(saved)
        assert saved.header.dtype is not None
        self._dtype = saved.header.dtype
        self._shape = saved.header.shape[1:]

    @property
    def field(self) -> Field:
        """Int and Float for one number, NDArray for everything else; in the byte order of the machine."""
        if not self._shape and self._dtype.kind in "iub":
            return Int()
        if not self._shape and self._dtype.kind == "f" and self._dtype.itemsize <= 8:
            return Float()
        return NDArray(self._dtype.newbyteorder("="), self._shape or (1,))

    def fits(self, field: Field) -> bool:
        """Numbers as numbers without loss, arrays of the same shape, and pictures of 8 bits."""
        if isinstance(field, NDArray):
            return (self._shape or (1,)) == field.shape and np.can_cast(self._dtype, field.dtype, "safe")
        if isinstance(field, Int | Float):
            return not self._shape and self._dtype.kind in ("iub" if isinstance(field, Int) else "iubf")
        return isinstance(field, Image) and self._is_pictures

    @property
    def _is_pictures(self) -> bool:
        return self._dtype == np.uint8 and len(self._shape) == 3 and self._shape[2] == 3

    def stored(self, indices: IndexArray, field: Field) -> npt.NDArray[Any]:
        """An array of its own."""
        return self.read(indices, field, np.empty)

    def read(self, indices: IndexArray, field: Field, take: TakeArray) -> npt.NDArray[Any]:
        """The same, in memory that the caller gives where that is possible."""
        dtype = field.dtype if isinstance(field, NDArray) else self._dtype.newbyteorder("=")
        shape = (len(indices), *(field.shape if isinstance(field, NDArray) else self._shape))
        is_plain = dtype == self._dtype and not self.saved.header.is_fortran
        values = self._gathered(indices, take(shape, dtype)) if is_plain and self._shape else self.saved.rows(indices)
        self.saved.content.check()
        if isinstance(field, Int) and self._dtype.kind == "u" and self._dtype.itemsize == 8:
            self._check_signed(values, indices)
        if self._dtype.kind == "U":
            self.check_text(values, indices)
        return np.ascontiguousarray(values.astype(dtype, copy=False)).reshape(shape)

    def _gathered(self, indices: IndexArray, out: npt.NDArray[Any]) -> npt.NDArray[Any]:
        offsets, sizes = self.saved.places(indices)
        base, starts = self.saved.content.region(offsets, sizes)
        raw = out.reshape(-1).view(np.uint8)
        gather_into(base, starts, sizes, raw, np.arange(len(indices), dtype=np.uint64) * sizes)
        return out

    def _check_signed(self, values: npt.NDArray[Any], indices: IndexArray) -> None:
        large = np.flatnonzero(values > np.uint64(2**63 - 1))
        if len(large):
            fix = f"open it with fields={{{self.saved.name!r}: NDArray('uint64', (1,))}}"
            raise self.corrupt(int(indices[large[0]]), f"{values[large[0]]} does not fit into an Int; {fix}")


class StringColumn(Column):
    """Texts or bytes of a fixed width; numpy takes zeros at the end of one for padding."""

    @property
    def _is_text(self) -> bool:
        return self.saved.header.dtype is not None and self.saved.header.dtype.kind == "U"

    @property
    def field(self) -> Field:
        """Text for numpy's str, Bytes for its bytes."""
        return Text() if self._is_text else Bytes()

    def fits(self, field: Field) -> bool:
        """Bytes can be anything that is decoded from bytes, text is only that."""
        return isinstance(field, Text | Json) or (not self._is_text and isinstance(field, Bytes | Image | Coded))

    def stored(self, indices: IndexArray, field: Field) -> list[Any]:
        """The strings."""
        values = self.saved.rows(indices)
        self.saved.content.check()
        if not self._is_text:
            return list(values.tolist())
        self.check_text(values, indices)
        return [self._text(values, i, int(index)) for i, index in enumerate(indices)]

    def _text(self, values: npt.NDArray[Any], position: int, index: int) -> Any:
        try:
            return str(values[position]).encode()
        except UnicodeEncodeError as error:
            raise self.corrupt(index, f"it is no text ({error})") from None


class RaggedColumn(Column):
    """Values of any length: all bytes in one array, and where each value begins in another.

    Args:
        name: of the field.
        values: uint8, one-dimensional.
        offsets: int64, one more than there are samples; value i is ``values[offsets[i]:offsets[i + 1]]``.
    """

    def __init__(self, name: str, values: SavedArray, offsets: SavedArray) -> None:
        super().__init__(SavedArray(values.path, name, values.content, values.header))
        self._offsets = offsets
        if not _is_vector(values, "|u1") or not _is_vector(offsets, "<i8") or not offsets.header.shape[0]:
            raise FormatError(values.path, problem=f"field {name!r} is not bytes (|u1) and offsets (<i8)", fix=_FIX)

    def __len__(self) -> int:
        return self._offsets.header.shape[0] - 1

    @property
    def field(self) -> Field:
        """Nothing is known of the bytes."""
        return Bytes()

    def fits(self, field: Field) -> bool:
        """Everything that is decoded from bytes."""
        return isinstance(field, Bytes | Text | Json | Image | Coded)

    @property
    def arrays(self) -> tuple[SavedArray, ...]:
        """The bytes and the offsets."""
        return (self.saved, self._offsets)

    def spans(
        self, indices: IndexArray
    ) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
        """Memory with the values of samples, and where they begin and how long they are."""
        offsets, sizes = self._spans(indices)
        base, begins = self.saved.content.region(offsets, sizes)
        return base, begins, sizes

    def _spans(self, indices: IndexArray) -> tuple[Positions, Positions]:
        """Where in the content the values of samples begin, and how long they are."""
        begins, ends = self._offsets.rows(indices), self._offsets.rows(indices + 1)
        self._offsets.content.check()
        total = self.saved.header.data_bytes
        wrong = np.flatnonzero((begins < 0) | (ends < begins) | (ends > total))
        if len(wrong):
            i = wrong[0]
            span = f"bytes {begins[i]} to {ends[i]} of {total}"
            raise self.corrupt(int(indices[i]), f"its place is wrong: {span}. The file is damaged")
        return (begins + self.saved.header.size_bytes).astype(np.uint64), (ends - begins).astype(np.uint64)

    def announce(self, indices: IndexArray) -> Announcement | None:
        """Begin to bring the bytes of samples; their places are brought as a whole."""
        return None if self.saved.content.is_here else self.saved.content.announce(*self._spans(indices))

    def stored_spans(self, indices: IndexArray) -> list[StoredSpans]:
        """What ``announce`` of these samples would bring."""
        return [] if self.saved.content.is_here else self.saved.content.stored_spans(*self._spans(indices))

    def stored(self, indices: IndexArray, field: Field) -> list[bytes]:
        """The bytes of each sample."""
        found = gather(*self.spans(indices))
        self.saved.content.check()
        return found

    def ragged(self, indices: IndexArray) -> Ragged:
        """The bytes of samples one after the other."""
        values, begins, sizes = self.spans(indices)
        offsets = np.zeros(len(indices) + 1, np.int64)
        np.cumsum(sizes.astype(np.int64), out=offsets[1:])
        out = np.empty(int(offsets[-1]), np.uint8)
        gather_into(values, begins, sizes, out, offsets[:-1].astype(np.uint64))
        self.saved.content.check()
        return Ragged(out, offsets)


class ObjectColumn(Column):
    """Python objects; they are all unpickled at once, when the file is opened.

    Args:
        saved: the array.
    """

    def __init__(self, saved: SavedArray) -> None:
        super().__init__(saved)
        try:
            array = np.lib.format.read_array(io.BytesIO(saved.content.whole().tobytes()), allow_pickle=True)
            self._objects = list(array)
        except Exception as error:  # a pickle may raise anything
            problem = f"array {saved.name!r} cannot be unpickled ({type(error).__name__}: {error})"
            raise FormatError(saved.path, problem=problem) from error
        if len(self._objects) != len(self):
            raise FormatError(saved.path, problem=f"array {saved.name!r} has another shape than its header says")

    @property
    def field(self) -> Field:
        """Whatever a pickle can hold."""
        return Coded("pickle")

    def fits(self, field: Field) -> bool:
        """Only as what they are."""
        return isinstance(field, Coded)

    def stored(self, indices: IndexArray, field: Field) -> list[Any]:
        """The objects themselves."""
        return [self._objects[i] for i in indices.tolist()]


def _is_vector(saved: SavedArray, dtype: str) -> bool:
    header = saved.header
    return len(header.shape) == 1 and header.dtype is not None and header.dtype.str == dtype


def column_of(saved: SavedArray, *, allow_pickle: bool) -> Column:
    """The column that an array is; FormatError for Python objects that are not allowed.

    Args:
        saved: an array with one axis at least.
        allow_pickle: see NpyDataset.
    """
    dtype = saved.header.dtype
    if dtype is None:
        if allow_pickle:
            return ObjectColumn(saved)
        raise FormatError(
            saved.path,
            problem=f"array {saved.name!r} holds Python objects, which are pickles: reading one runs code of the file",
            fix="Save numbers or text instead. If you trust everyone who could have written it, say allow_pickle=True.",
        )
    is_strings = dtype.kind in "SU" and len(saved.header.shape) == 1
    return StringColumn(saved) if is_strings else NumberColumn(saved)


def pictures_of(column: Column | None) -> bool:
    """Whether pictures of a column are pixels, and no files."""
    return isinstance(column, NumberColumn)
