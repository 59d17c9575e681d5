"""Columns that lie in a mapped file, uncompressed: where their buffers are in each record batch, and no more.

Files of Hugging Face have a record batch for each thousand samples, so the samples of a batch lie in nearly as many
record batches. To take them one record batch after the other would cost more than to copy them; here the places of all
are computed at once, and one native call copies them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace._native import gather_into
from headrace.fields import Image, Int, Json, NDArray
from headrace.formats.arrow.chunk_maker import is_within
from headrace.formats.arrow.column_types import array_form, kind_of, picture_parts, storage_type
from headrace.registry import require

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from headrace.types import Field, IndexArray, TakeArray

__all__ = ["MappedColumn", "column_form"]

_NONE = -1


@dataclass(frozen=True, slots=True)
class _Form:
    """What a row of a column takes: numbers of a dtype and shape, or two places in a table of places."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    is_bytes: bool

    @property
    def width(self) -> int:
        return self.dtype.itemsize * int(np.prod(self.shape, dtype=np.int64))


def column_form(arrow_type: Any, field: Field) -> _Form | None:
    """How a column is looked up; None for those that only Arrow can read."""
    types = require("pyarrow", "reading Arrow data").types
    kind, how = storage_type(arrow_type), kind_of(arrow_type)
    if how == "picture":
        kind = kind.field(picture_parts(kind)).type
    if how in ("bytes", "picture"):
        if types.is_fixed_size_binary(kind) or "_view" in str(kind):
            return None
        is_large = types.is_large_binary(kind) or types.is_large_string(kind)
        return _Form(np.dtype("<i8" if is_large else "<i4"), (), True)
    if isinstance(field, Json) or how not in ("int", "float", "array") or (isinstance(field, Int) and how != "int"):
        return None
    dtype, shape = array_form(arrow_type) or (np.dtype(kind.to_pandas_dtype()), ())
    if dtype == np.bool_ or (isinstance(field, NDArray) and dtype != field.dtype):
        return None
    if isinstance(field, NDArray | Image) != bool(shape):
        return None
    return _Form(dtype, field.shape if isinstance(field, NDArray) else shape, False)


class MappedColumn:
    """The places of one column in one mapped file, learned record batch by record batch.

    Args:
        mapped: the file.
        parts: how many record batches it has.
        form: see ``column_form``.
        load: gives the array of a record batch.
    """

    def __init__(self, mapped: npt.NDArray[np.uint8], parts: int, form: _Form, load: Callable[[int], Any]) -> None:
        self.mapped, self.form, self._load = mapped, form, load
        self._places = np.full((parts, 5), _NONE, np.int64)  # values, data, size of the data, two tables of nulls

    def learn(self, parts: IndexArray) -> bool:
        """Look the record batches up that are not known; False when one of them does not lie in the file."""
        for part in np.unique(parts[self._places[parts, 0] == _NONE]).tolist():
            found = self._look_up(self._load(part))
            if found is None:
                return False
            self._places[part] = found
        return True

    def _look_up(self, array: Any) -> tuple[int, int, int, int, int] | None:
        pyarrow = require("pyarrow", "reading Arrow data")
        while isinstance(array.type, pyarrow.BaseExtensionType):
            array = array.storage
        outer: int | None = _NONE  # bits of a struct
        count, width, offset = len(array), self.form.width, array.offset
        if pyarrow.types.is_struct(array.type):
            outer = self._bits(array)
            array = array.field(picture_parts(array.type))
            offset = array.offset
        bits = self._bits(array)
        while pyarrow.types.is_fixed_size_list(array.type):
            side = array.type.list_size
            array = array.values.slice(array.offset * side, len(array) * side)
            if array.null_count:
                return None
            offset, width = array.offset, self.form.dtype.itemsize
        buffers = array.buffers()
        needed = (offset + count + 1) * width if self.form.is_bytes else offset * width + count * self.form.width
        if outer is None or bits is None or buffers[1] is None:
            return None
        if buffers[1].size < needed or not is_within(buffers[1], self.mapped):
            return None
        values = buffers[1].address - self.mapped.ctypes.data + offset * width
        data = buffers[2] if self.form.is_bytes else None
        if data is None or data.size == 0:
            return values, 0, 0, outer, bits
        if not is_within(data, self.mapped):
            return None
        return values, data.address - self.mapped.ctypes.data, data.size, outer, bits

    def _bits(self, array: Any) -> int | None:
        """The bit in the file that says whether the first value is there; -1 if all are, None if it is elsewhere."""
        bitmap = array.buffers()[0]
        if bitmap is None:
            return _NONE
        if not is_within(bitmap, self.mapped) or bitmap.size * 8 < array.offset + len(array):
            return None
        return int(bitmap.address - self.mapped.ctypes.data) * 8 + int(array.offset)

    def missing(self, parts: IndexArray, rows: IndexArray) -> npt.NDArray[np.bool_] | None:
        """Which rows have no value; None if all have."""
        found: npt.NDArray[np.bool_] | None = None
        for first in (self._places[parts, 3], self._places[parts, 4]):
            if (first == _NONE).all():
                continue
            bit = np.where(first == _NONE, 0, first + rows)
            is_missing = (first != _NONE) & ((self.mapped[bit >> 3] >> (bit & 7).astype(np.uint8)) & 1 == 0)
            found = is_missing if found is None else found | is_missing
        return found

    def _copied(self, parts: IndexArray, rows: IndexArray, width: int, out: npt.NDArray[np.uint8]) -> None:
        starts = self._places[parts, 0] + rows * self.form.width
        sizes = np.full(len(rows), width, np.uint64)
        gather_into(self.mapped, starts.astype(np.uint64), sizes, out, np.arange(len(rows), dtype=np.uint64) * width)

    def numbers(self, parts: IndexArray, rows: IndexArray, take: TakeArray) -> npt.NDArray[Any]:
        """Numbers or arrays of rows."""
        out = take((len(rows), *self.form.shape), self.form.dtype)
        self._copied(parts, rows, self.form.width, out.reshape(-1).view(np.uint8))
        return out

    def spans(
        self, parts: IndexArray, rows: IndexArray
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
        """Where in the file bytes are, how many, and which of them would lie outside of the data."""
        table = np.empty((len(rows), 2), self.form.dtype)
        self._copied(parts, rows, 2 * self.form.width, table.reshape(-1).view(np.uint8))
        starts, ends = table[:, 0].astype(np.int64), table[:, 1].astype(np.int64)
        is_bad = (starts < 0) | (ends < starts) | (ends > self._places[parts, 2])
        sizes = np.where(is_bad, 0, ends - starts)
        return np.where(sizes == 0, 0, starts + self._places[parts, 1]), sizes, is_bad
