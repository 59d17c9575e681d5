"""What datasets share that read stored values column by column: decoding, checking, pictures for the loader."""

from __future__ import annotations

import contextlib
import os
from abc import abstractmethod
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from headrace.errors import CorruptSampleError, FormatError, ImageError
from headrace.fields import Bytes, Float, Image, Int, NDArray
from headrace.formats.contract import BaseDataset, join_images, normalize_indices
from headrace.formats.report import Found, check_all
from headrace.formats.values import decode_value
from headrace.types import ImageSpans, Problem, Sample

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from headrace.types import Field, IndexArray, Indices, Progress, Report, SampleSequence, Source

__all__ = ["ColumnDataset"]

_NUMBERS: dict[type[Any], type[Any]] = {Int: np.int64, Float: np.float64}


class ColumnDataset(BaseDataset):
    """A dataset whose subclass gives stored values: ``_stored`` is all that it must write, besides ``__reduce__``.

    What is stored of a field: an array of numbers (Int, Float), an array of arrays (NDArray, Tensor, and pictures as
    raw pixels: uint8, samples x height x width x 3), or a list of bytes for everything else. A list may also hold
    values of any other type, which are taken as decoded: what a library decodes itself (texts, lists, maps).

    Args:
        path: where it was opened.
        length: number of samples.
        schema: the fields by name, in order.
        keys: names of the samples, or None.
        class_names: names of the classes by field.
    """

    holds_picture_files = True

    def __init__(
        self,
        path: str,
        *,
        length: int,
        schema: Mapping[str, Field],
        keys: Sequence[str] | None = None,
        class_names: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        self._path = path
        self._length = length
        self._schema = MappingProxyType(dict(schema))
        self._keys = keys
        self._class_names = {name: list(names) for name, names in (class_names or {}).items()}

    @abstractmethod
    def _stored(self, indices: IndexArray, field: str) -> Sequence[Any] | npt.NDArray[Any]:
        """The stored values of samples; the indices are checked, in any order, and may repeat."""

    def _taken(self, indices: IndexArray, field: str) -> Sequence[Any] | npt.NDArray[Any]:
        """The same for whoever wants the values; a subclass with checksums compares them here."""
        return self._stored(indices, field)

    @property
    def path(self) -> str:
        """Where it was opened."""
        return self._path

    @property
    def schema(self) -> Mapping[str, Field]:
        """The fields by name, in order."""
        return self._schema

    @property
    def keys(self) -> Sequence[str] | None:
        """Names of the samples, or None when they have none."""
        return self._keys

    @property
    def class_names(self) -> Mapping[str, Sequence[str]]:
        """Names of the classes by field, empty when there are none."""
        return self._class_names

    def __len__(self) -> int:
        return self._length

    def _check_field(self, field: str) -> Field:
        if field not in self._schema:
            raise KeyError(f"no field {field!r} in {self.path}; the fields are {', '.join(self._schema)}")
        return self._schema[field]

    def read_bytes(self, indices: Indices, field: str) -> list[bytes]:
        """Read the stored, undecoded bytes of one field of many samples."""
        kind = self._check_field(field)
        if isinstance(kind, Int | Float):
            raise ValueError(f"field {field!r} is a number and has no stored bytes; read it with read_values")
        where = normalize_indices(indices, len(self))
        stored = self._taken(where, field)
        values = []
        for i, value in zip(where.tolist(), stored, strict=True):
            try:
                values.append(_as_bytes(value, kind, i))
            except (ValueError, TypeError, RecursionError) as error:  # what a damaged file holds in place of the value
                raise self._corrupt(i, field, error) from error
        return values

    def read_values(
        self, indices: IndexArray, field: str, source: Source | None = None
    ) -> list[Any] | npt.NDArray[Any]:
        """Decoded values of one field; an array where they have one dtype and shape."""
        self._check_field(field)
        return self._values_of(indices, field, self._taken(indices, field))

    def _values_of(
        self, indices: IndexArray, field: str, stored: Sequence[Any] | npt.NDArray[Any]
    ) -> list[Any] | npt.NDArray[Any]:
        kind = self._schema[field]
        dtype = next((dtype for number, dtype in _NUMBERS.items() if isinstance(kind, number)), None)
        if isinstance(stored, np.ndarray):
            return stored if dtype is None else stored.astype(dtype, copy=False)
        values = self._decoded(indices, field, stored)
        if isinstance(kind, NDArray):
            return np.stack(values) if values else np.empty((0, *kind.shape), kind.dtype)
        return values if dtype is None else np.array(values, dtype)

    def _decoded(self, indices: IndexArray, field: str, stored: Sequence[Any]) -> list[Any]:
        kind = self._schema[field]
        if isinstance(kind, Bytes):
            return list(stored)
        values = []
        for i, data in zip(indices.tolist(), stored, strict=True):
            try:
                values.append(decode_value(kind, data) if isinstance(data, bytes) else data)
            except (ImageError, ValueError, RecursionError) as error:
                raise self._corrupt(i, field, error) from error
        return values

    def _corrupt(self, index: int, field: str, error: Exception) -> CorruptSampleError:
        problem = f"the value cannot be decoded ({error})"
        return CorruptSampleError(self.path, sample=index, field=field, problem=problem)

    def _samples(self, indices: IndexArray) -> list[Sample]:
        names = tuple(self._schema)
        columns = [_plain(self.read_values(indices, name), self._schema[name]) for name in names]
        return [Sample(names, row) for row in zip(*columns, strict=True)]

    def rows(self, indices: IndexArray) -> list[dict[str, object]]:
        """Numbers as they are, of everything else how large it is."""
        columns = {name: self._in_words(indices, name) for name in self._schema}
        return [{name: column[i] for name, column in columns.items()} for i in range(len(indices))]

    def _in_words(self, indices: IndexArray, field: str) -> list[object]:
        stored = self._stored(indices, field)
        if isinstance(stored, np.ndarray):
            return list(stored.tolist()) if stored.ndim == 1 else ["x".join(map(str, stored.shape[1:]))] * len(stored)
        return [f"{len(value)}B" if isinstance(value, bytes) else value for value in stored]

    def image_spans(self, indices: IndexArray, field: str, source: Source | None = None) -> ImageSpans:
        """The undecoded bytes of pictures, one after the other."""
        self._check_field(field)
        stored = self._stored(indices, field)
        if not isinstance(stored, np.ndarray):
            return join_images(self.path, field, indices, list(stored))
        if stored.dtype != np.uint8 or stored.ndim != 4 or stored.shape[3] != 3:
            problem = f"field {field!r} holds arrays of {stored.dtype} {stored.shape[1:]}, which are no RGB pictures"
            raise FormatError(self.path, problem=problem, fix="Leave out fields=, and use it as arrays.")
        count, height, width, _ = stored.shape
        sizes = np.full(count, height * width * 3, np.uint64)
        widths, heights = np.full(count, width, np.uint32), np.full(count, height, np.uint32)
        offsets = np.arange(count, dtype=np.uint64) * np.uint64(height * width * 3)
        base = np.ascontiguousarray(stored).reshape(-1)
        return ImageSpans(base, offsets, sizes, np.ones(count, np.uint8), widths, heights)

    def sources(self) -> SampleSequence:
        """The samples as a writer takes them: files of pictures as they are, pixels as arrays."""
        return StoredRows(self)

    def source_rows(self, indices: Sequence[int]) -> Iterator[tuple[Any, ...]]:
        """Samples as a writer takes them; each field is read by one call."""
        where = normalize_indices(indices, len(self))
        columns = [
            self._taken(where, name) if isinstance(kind, Image) else _plain(self.read_values(where, name), kind)
            for name, kind in self._schema.items()
        ]
        return zip(*columns, strict=True)

    def verify(self, *, decode: bool = False, workers: int | None = None, progress: Progress | None = None) -> Report:
        """Read every value; with ``decode`` also decode it. A library that keeps checksums compares them."""
        found = check_all(lambda indices: self._check(indices, decode), len(self), workers=workers, progress=progress)
        if not found.size_bytes:
            with contextlib.suppress(OSError):  # a file that was removed can still be read
                found.size_bytes = os.path.getsize(self.path)
        return found.report(self.path)

    def _check(self, indices: IndexArray, decode: bool) -> Found:
        found = Found(samples=len(indices))
        for name in self._schema:
            for part in (indices, *indices.reshape(-1, 1)):  # one by one only where all together do not work
                is_alone = part is not indices
                try:
                    stored = self._stored(part, name)
                    if decode:
                        self._values_of(part, name, stored)
                    compared, wrong = self._value_problems(part, name, stored)
                except (CorruptSampleError, FormatError, ImageError) as error:
                    if is_alone:
                        found.problems.append(Problem(sample=int(part[0]), field=name, message=str(error)))
                    continue
                found.checksums += compared
                for position, message in wrong.items():
                    found.problems.append(Problem(sample=int(part[position]), field=name, message=message))
                if not is_alone:
                    found.images += len(part) if decode and isinstance(self._schema[name], Image) else 0
                    break
        return found

    def _value_problems(
        self, indices: IndexArray, field: str, stored: Sequence[Any] | npt.NDArray[Any]
    ) -> tuple[int, dict[int, str]]:
        """How many values were compared with a checksum, and what is wrong with some, by position.

        For a subclass that knows more than that they can be read.
        """
        return 0, {}


@dataclass(frozen=True, slots=True)
class StoredRows:
    """Samples with pictures as they are stored, everything else decoded."""

    dataset: ColumnDataset

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int) -> tuple[Any, ...]:
        (row,) = self.dataset.source_rows([index])
        return row

    def __getitems__(self, indices: Sequence[int]) -> Iterator[tuple[Any, ...]]:
        """Many of them; each field is read by one call."""
        return self.dataset.source_rows(indices)


def _as_bytes(value: Any, field: Field, index: int) -> bytes:
    if isinstance(value, bytes):
        return value
    if isinstance(value, np.ndarray):
        return value.tobytes()
    return (field.encode(value, index).payload or b"").removesuffix(b"\0")


def _plain(values: list[Any] | npt.NDArray[Any], field: Field) -> Sequence[Any]:
    """One value for each sample: numbers as Python has them."""
    return values.tolist() if isinstance(values, np.ndarray) and isinstance(field, Int | Float) else list(values)
