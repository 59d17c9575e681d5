"""Writes RecordIO files with the ``.idx`` of their keys and their annex."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from headrace import _native
from headrace.errors import WriteError
from headrace.fields import Bytes, Float, Image, Int, Json, NDArray, Text
from headrace.formats.recordio.dataset import RecordioDataset
from headrace.formats.recordio.header import encode_header
from headrace.formats.recordio.key_file import key_path
from headrace.formats.spans import SpanWriter
from headrace.formats.values import encode_value
from headrace.storage import AtomicFile

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Unpack

    import numpy.typing as npt

    from headrace.errors import PathLike
    from headrace.formats.row_writer import Row
    from headrace.formats.spans import AnnexOptions
    from headrace.types import Field

__all__ = ["RecordioWriter", "check_fields"]

_LABEL, _ID = "label", "id"


def _store(field: Field, value: Any, index: int) -> Any:
    """Numbers and float32 arrays as they are, everything else as the bytes of a file."""
    if isinstance(field, Int | Float):
        return field.encode(value, index).facts[0]
    if isinstance(field, NDArray) and field.dtype == np.float32:
        return np.frombuffer(field.encode(value, index).payload or b"", np.float32)
    if isinstance(field, Json):
        return value
    return encode_value(field, value, index)[1]


class RecordioWriter(SpanWriter):
    """Samples as records: a picture or other bytes, with the header that MXNet writes.

    Args:
        path: the new file; its keys go into a file beside it that ends in ``.idx``.
        fields: one field of bytes (Image, Bytes, Text), and at most ``label`` (Int, Float, an NDArray of float32, or
            Json: a number or a list of numbers) and ``id`` (Int). Labels are stored as float32.
        length: not needed.
        **annex: see ``AnnexOptions``.
    """

    def __init__(
        self,
        path: PathLike,
        fields: Mapping[str, Field],
        *,
        length: int | None = None,
        **annex: Unpack[AnnexOptions],
    ) -> None:
        self._content = check_fields(fields)
        self._has_headers = len(fields) > 1 or isinstance(fields[self._content], Image)
        self._offsets: list[int] = []
        super().__init__(path, fields, _store, **annex)
        try:
            self._keys = AtomicFile(key_path(self._path))
        except BaseException:
            self._file.abort()
            raise

    def _put(self, rows: list[Row], names: Sequence[str] | None) -> None:
        self._note_names(names)
        records = [self._record(row, len(self) + i) for i, row in enumerate(rows)]
        try:
            encoded = _native.encode_recordio(records)
        except _native.NativeError as error:
            raise WriteError(f"from sample {len(self)} on: {error.detail}") from None
        position = self._file.position
        for one in encoded:
            self._offsets.append(position)
            position += len(one)
        self._file.write(encoded)

    def _record(self, row: Row, index: int) -> bytes:
        values = dict(zip(self.fields, row, strict=True))
        content: bytes = values[self._content]
        if not self._has_headers:
            return content
        try:
            return encode_header(_as_label(values.get(_LABEL, 0.0)), int(values.get(_ID, index))) + content
        except (ValueError, TypeError, OverflowError) as error:
            raise WriteError(f"sample {index}, field {_LABEL!r} or {_ID!r}: {error}", sample=index) from error

    def _finish(self) -> None:
        lines = [f"{key}\t{offset}\n" for key, offset in zip(self._key_texts(), self._offsets, strict=True)]
        self._keys.write(["".join(lines).encode("utf-8", "surrogateescape")])
        self._file.commit()
        self._keys.commit()
        self._annex.write(self._path, self.fields, self._open, self._names if self._has_names else None)

    def _key_texts(self) -> Sequence[str]:
        is_used = self._names and all(name.isascii() and name.isdigit() for name in self._names)
        if is_used and len(set(self._names)) == len(self._names):
            return self._names
        return [str(i) for i in range(len(self))]

    def _open(self) -> RecordioDataset:
        headers = self._has_headers if len(self) else None
        described = self._annex.describe(self.fields)
        return RecordioDataset(self._path, headers=headers, annex=False, description=described)

    def _discard(self) -> None:
        super()._discard()
        self._keys.abort()


def check_fields(fields: Mapping[str, Field]) -> str:
    """The name of the field that is the content; ValueError for fields that a record has no place for."""
    contents = [name for name in fields if name not in (_LABEL, _ID)]
    if len(contents) != 1 or not isinstance(fields[contents[0]], Image | Bytes | Text):
        raise ValueError(
            f"a .rec holds one field of bytes (Image, Bytes or Text) and a label and an id besides, and there are "
            f"{', '.join(f'{name} ({field.kind})' for name, field in fields.items())}"
        )
    label = fields.get(_LABEL, Int())
    is_array = isinstance(label, NDArray) and label.dtype == np.float32
    if not is_array and not isinstance(label, Int | Float | Json):
        raise ValueError(f"fields['label'] is {label!r}; the label of a .rec is an Int, a Float or float32 numbers")
    if not isinstance(fields.get(_ID, Int()), Int):
        raise ValueError(f"fields['id'] is {fields[_ID]!r}; the id of a .rec is an Int")
    return contents[0]


def _as_label(value: Any) -> float | npt.NDArray[np.float32]:
    """A label as the header holds it: float32, one or several; of whole numbers only those that stay the same."""
    if isinstance(value, bool) or not isinstance(value, int | float | list | np.ndarray):
        raise TypeError(f"a label is a number or a list of numbers, got {value!r}")
    with np.errstate(over="ignore"):
        numbers = np.asarray(value, np.float32)
    if isinstance(value, int) and int(numbers) != value:
        raise ValueError(f"{value} is not exact as float32, and the label of a .rec is one")
    if np.isinf(numbers).any() and np.isfinite(np.asarray(value, np.float64)).all():
        raise ValueError(f"{value!r} is too large for float32, and the label of a .rec is one")
    if numbers.ndim == 0:
        return float(numbers)
    if numbers.size == 0 or (isinstance(value, list) and numbers.ndim != 1):
        raise ValueError(f"a label is a number or a list of numbers, got {value!r}")
    return numbers
