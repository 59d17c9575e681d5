"""Samples to bytes: the part of writing that many workers can do side by side."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np
import numpy.typing as npt

from headrace import _native
from headrace.errors import WriteError
from headrace.fields import JPG, Image
from headrace.formats.beton.columns import record_dtype
from headrace.formats.contract import values_in_order
from headrace.formats.lent_columns import LentColumns, Spans
from headrace.formats.tile_index import tile_index_of
from headrace.storage import is_lent
from headrace.types import Encoded

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from headrace.formats.beton.columns import Column
    from headrace.types import Buffer

__all__ = ["ChunkEncoder", "EncodedChunk"]

_LATER = Encoded((), None)


@dataclass(frozen=True, slots=True)
class EncodedChunk:
    """Consecutive samples, encoded and not yet placed.

    ``payloads`` holds the payloads sample by sample in slot order, ``sizes`` their sizes (samples x slots),
    ``records`` the metadata with zero pointers, ``checksums`` samples x (1 + slots), ``tile_indices`` the packed
    tile indices of the pictures, sample by sample, empty where there is none.
    """

    records: bytes
    payloads: Sequence[Buffer]
    sizes: npt.NDArray[np.uint64]
    checksums: npt.NDArray[np.uint32]
    tile_indices: list[bytes]

    def __len__(self) -> int:
        return len(self.sizes)


@dataclass(frozen=True, slots=True)
class ChunkEncoder:
    """Encodes samples; picklable, without state, safe in any thread."""

    columns: tuple[Column, ...]
    is_indexing: bool = True
    takes_lent: ClassVar[bool] = True

    def __call__(self, samples: Iterable[Any], *, first_index: int) -> EncodedChunk:
        """Encode samples that will stand from ``first_index`` on.

        Image files, given as bytes or paths, are kept back and then stored together by one native call.

        Raises:
            WriteError: a sample does not fit the fields; the cause is attached.
        """
        if isinstance(samples, LentColumns) and (chunk := self._pass_on(samples, first_index)) is not None:
            return chunk
        rows: list[list[Encoded]] = []
        files: dict[int, list[tuple[int, Any]]] = {}
        for i, sample in enumerate(samples):
            row = []
            for j, (column, value) in enumerate(self._values(sample, first_index + i)):
                lent = is_lent(value)
                if isinstance(column.field, Image) and (lent or isinstance(value, bytes | str | os.PathLike)):
                    files.setdefault(j, []).append((i, value))
                    row.append(_LATER)
                elif lent and column.field.kind == "bytes":
                    row.append(Encoded((), cast("bytes", value)))  # written as it is
                else:
                    row.append(self._encode_value(column, value, first_index + i))
            rows.append(row)
        for j, sources in files.items():
            self._store_files(j, sources, rows, first_index)
        return self.join(rows)

    def _pass_on(self, samples: LentColumns, first_index: int) -> EncodedChunk | None:
        """Samples that are stored as they are; None where one of them is not."""
        if len(samples.columns) != len(self.columns):
            return None
        records, stored = np.zeros(len(samples), record_dtype(self.columns)), []
        for column, values in zip(self.columns, samples.columns, strict=True):
            member, kind = records[column.member], column.field.kind
            if not isinstance(values, Spans):
                if kind != "int":
                    return None
                member[:] = values
                continue
            stored.append(values)
            if isinstance(column.field, Image):
                facts = column.field.sides_of_files(samples.base, *values, first_index=first_index)
                if facts is None:
                    return None
                member["mode"], member["width"], member["height"] = JPG, *facts
            elif kind == "bytes":
                member["size"] = values.sizes
            else:
                return None
        return self._chunk_of(samples, records, stored)

    def _chunk_of(self, samples: LentColumns, records: npt.NDArray[Any], stored: list[Spans]) -> EncodedChunk:
        offsets, sizes = (
            np.stack(part, axis=1) if stored else np.empty((len(samples), 0), np.uint64)
            for part in ([spans.offsets for spans in stored], [spans.sizes for spans in stored])
        )
        every = Spans(offsets.reshape(-1), sizes.reshape(-1))
        payloads = samples.views(every)
        checksums = np.empty((len(samples), 1 + len(stored)), np.uint32)
        checksums[:, 0] = _native.crc32c_rows(records.view(np.uint8).reshape(len(records), -1), [])
        checksums[:, 1:] = _native.crc32c_spans(samples.base, *every).reshape(sizes.shape)
        tile_indices: list[bytes] = []
        if self.is_indexing:
            fields = [column.field for column in self.columns if column.slot is not None] * len(samples)
            pictures = zip(fields, payloads, strict=True)
            tile_indices = [tile_index_of(data) for field, data in pictures if isinstance(field, Image)]
        return EncodedChunk(records.tobytes(), payloads, sizes, checksums, tile_indices)

    def _store_files(self, j: int, sources: list[tuple[int, Any]], rows: list[list[Encoded]], first_index: int) -> None:
        column = self.columns[j]
        assert isinstance(column.field, Image)
        indices = [first_index + i for i, _ in sources]
        stored = column.field.encode_files([value for _, value in sources], indices)
        for (i, value), encoded in zip(sources, stored, strict=True):
            rows[i][j] = encoded or self._encode_value(column, value, first_index + i)

    def encode(self, sample: Any, index: int) -> list[Encoded]:
        """Encode one sample, field by field."""
        return [self._encode_value(column, value, index) for column, value in self._values(sample, index)]

    def _values(self, sample: Any, index: int) -> Iterator[tuple[Column, Any]]:
        if type(sample) is not tuple or len(sample) != len(self.columns):
            sample = values_in_order(sample, [c.name for c in self.columns], index)
        return zip(self.columns, sample, strict=True)

    def _encode_value(self, column: Column, value: Any, index: int) -> Encoded:
        try:
            return column.field.encode(value, index)
        except Exception as error:
            is_path = column.field.kind == "image" and isinstance(value, str | os.PathLike)
            source = f" ({os.fspath(value)})" if is_path else ""
            problem = f"sample {index}, field {column.name!r}{source}: {type(error).__name__}: {error}"
            raise WriteError(problem, sample=index) from error

    def join(self, rows: list[list[Encoded]]) -> EncodedChunk:
        """Make one chunk of encoded samples."""
        slots = [i for i, column in enumerate(self.columns) if column.slot is not None]
        records = np.zeros(len(rows), record_dtype(self.columns))
        for i, column in enumerate(self.columns):
            members = [column.to_member(row[i]) for row in rows]
            records[column.member] = np.array(members, column.record)
        payloads = [row[i].payload or b"" for row in rows for i in slots]
        shape = (len(rows), len(slots))
        checksums = np.empty((len(rows), 1 + len(slots)), np.uint32)
        checksums[:, 0] = _native.crc32c_rows(records.view(np.uint8).reshape(len(rows), -1), [])
        checksums[:, 1:] = _native.crc32c_buffers(payloads).reshape(shape)
        sizes = np.fromiter(map(len, payloads), np.uint64, len(payloads)).reshape(shape)
        return EncodedChunk(records.tobytes(), payloads, sizes, checksums, self._tile_indices(rows))

    def _tile_indices(self, rows: list[list[Encoded]]) -> list[bytes]:
        """Indices of the pictures' JPEGs."""
        if not self.is_indexing:
            return []
        pictures = [i for i, column in enumerate(self.columns) if column.field.kind == "image"]
        return [index_picture(row[i]) for row in rows for i in pictures]


def index_picture(encoded: Encoded) -> bytes:
    """The packed index of a stored picture; empty for raw pixels, and JPEGs that cannot be entered in the middle."""
    if encoded.payload is None or encoded.facts[0] != JPG:
        return b""
    return tile_index_of(encoded.payload)
