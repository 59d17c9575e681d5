"""What ``headrace.write`` needs of a format: an encoder that many workers share, and a writer of its chunks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np
import numpy.typing as npt

from headrace.codecs import npy
from headrace.errors import WriteError
from headrace.fields import JPG, Bytes, Image, Json, NDArray
from headrace.formats.contract import BaseWriter
from headrace.formats.ffr.packed_index import build_tree, pack_index
from headrace.formats.ffr.writer import FfrWriter, as_sample
from headrace.formats.lent_columns import LentColumns, Spans
from headrace.progress import format_count
from headrace.storage import is_lent
from headrace.types import Field

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from headrace.errors import PathLike

__all__ = ["FfrChunk", "FfrDatasetWriter", "FfrEncoder"]


@dataclass(frozen=True, slots=True)
class FfrChunk:
    """Consecutive samples as they are stored."""

    samples: Sequence[bytes | memoryview]

    def __len__(self) -> int:
        return len(self.samples)

    @property
    def sizes(self) -> npt.NDArray[np.uint64]:
        """Bytes of each sample."""
        return np.fromiter(map(len, self.samples), np.uint64, len(self.samples)).reshape(-1, 1)


@dataclass(frozen=True, slots=True)
class FfrEncoder:
    """Encodes samples of one field; picklable, without state, safe in any thread."""

    name: str
    field: Field
    takes_lent: ClassVar[bool] = True

    def __call__(self, samples: Iterable[Any], *, first_index: int) -> FfrChunk:
        """Encode samples that will stand from ``first_index`` on."""
        if isinstance(samples, LentColumns) and isinstance(self.field, Bytes) and len(samples.columns) == 1:
            (column,) = samples.columns
            if isinstance(column, Spans):
                return FfrChunk(samples.views(column))
        return FfrChunk([self.encode(sample, first_index + i) for i, sample in enumerate(samples)])

    def encode(self, sample: Any, index: int) -> bytes:
        """Encode one sample: the bare value, a tuple of it, or a mapping."""
        try:
            return self._encode(self._value(sample), index)
        except Exception as error:
            problem = f"sample {index}, field {self.name!r}: {type(error).__name__}: {error}"
            raise WriteError(problem, sample=index) from error

    def _value(self, sample: Any) -> Any:
        if hasattr(sample, "keys") and hasattr(sample, "__getitem__"):
            if list(sample.keys()) != [self.name]:
                raise ValueError(f"the sample has the fields {list(sample.keys())}, expected {self.name!r}")
            return sample[self.name]
        if isinstance(sample, tuple):
            if len(sample) != 1:
                raise ValueError(f"the sample has {format_count(len(sample), 'value')}, and an .ffr holds one")
            return sample[0]
        return sample

    def _encode(self, value: Any, index: int) -> bytes:
        if isinstance(self.field, Bytes):
            return (
                cast("bytes", value) if is_lent(value) else bytes(as_sample(value))
            )  # what is lent is written as it is
        if isinstance(self.field, NDArray):
            return npy.encode(np.asarray(value, self.field.dtype).reshape(self.field.shape))
        encoded = self.field.encode(value, index)
        if isinstance(self.field, Image) and encoded.facts[0] != JPG:
            raise ValueError("raw pixels would lose their size; store pictures with Image(mode='jpg')")
        payload = encoded.payload or b""
        return payload.removesuffix(b"\0") if isinstance(self.field, Json) else payload


class FfrDatasetWriter(BaseWriter):
    """Writes samples of one field into an .ffr file; samples with names become a packed folder.

    Args:
        path: where the file goes.
        fields: one field that has bytes: Bytes, Text, Json, Image (JPEG), or an array, which is stored as npy.
        length: number of samples, if known.
        annex: kept for other formats' sake: False leaves names out.
    """

    def __init__(
        self, path: PathLike, fields: Mapping[str, Field], *, length: int | None = None, annex: bool = True
    ) -> None:
        if len(fields) != 1:
            raise ValueError(f"an .ffr holds one value for each sample, and there are the fields {', '.join(fields)}")
        ((name, field),) = fields.items()
        if isinstance(field, type) or not isinstance(field, Field):
            raise TypeError(f"fields[{name!r}] must be a field such as Bytes(), got {field!r}")
        if not field.has_payload:
            raise ValueError(f"fields[{name!r}] is a number ({field.kind}); an .ffr holds bytes, such as Json()")
        self.encoder = FfrEncoder(name, field)
        self._path, self._length = path, length
        self._has_names: bool | None = None
        self._names: list[str] = []
        self._takes_names = annex
        self._opened: FfrWriter | None = None

    def _writer(self, has_names: bool) -> FfrWriter:
        if has_names and not self._takes_names:
            raise ValueError("names make a packed folder; do not pass annex=False")
        if self._has_names not in (None, has_names):
            raise ValueError("either all samples have a name or none has")
        self._has_names = has_names
        if self._opened is None:
            self._opened = FfrWriter(self._path, None if self._length is None else self._length + has_names)
        return self._opened

    def __len__(self) -> int:
        """Samples taken so far."""
        return 0 if self._opened is None else len(self._opened)

    @property
    def size_bytes(self) -> int:
        """Bytes of the samples taken so far."""
        return 0 if self._opened is None else self._opened.size_bytes

    def append(self, sample: Any, *, name: str | None = None) -> None:
        """Add one sample."""
        data = self.encoder.encode(sample, len(self))
        self._writer(name is not None).append(data)
        self._names += [] if name is None else [name]

    def append_chunk(self, chunk: FfrChunk, *, names: Sequence[str] | None = None) -> None:
        """Add samples that ``encoder`` has encoded, and their names; chunks must come in order."""
        self._writer(names is not None).append_chunk(chunk.samples)
        self._names += names or []

    def close(self) -> None:
        """Finish the file and give it its name."""
        writer = self._writer(bool(self._has_names))
        try:
            if self._has_names:
                writer.append(pack_index(build_tree(self._names)))
        except BaseException:
            writer.abort()
            raise
        writer.close()

    def abort(self) -> None:
        """Throw away what was written; nothing is left behind."""
        if self._opened is not None:
            self._opened.abort()
