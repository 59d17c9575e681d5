"""Writing .beton files.

Samples are encoded in chunks (``ChunkEncoder``: by any number of threads or processes) and placed on pages in
order by one thread (``BetonWriter.append_chunk``). So sample i is sample i, pages fill front to back, and the
file is the same to the byte whatever the number of workers. Metadata, table, checksums and names are spooled to
nameless temporary files once they outgrow memory; pointers are kept relative to the first data page until the
number of samples, and with it the size of the metadata, is known.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from headrace import _native
from headrace.annex import (
    CHECKSUMS,
    CLASSES,
    METADATA,
    NAMES,
    SCHEMA,
    TILE_INDEX,
    checksums_section,
    json_section,
    names_section,
    tile_index_section,
    write_annex,
)
from headrace.errors import ClosedError, SampleTooLargeError
from headrace.fields import to_spec
from headrace.formats.beton.columns import record_dtype
from headrace.formats.beton.encoder import ChunkEncoder, EncodedChunk
from headrace.formats.beton.layout import (
    DEFAULT_PAGE_SIZE,
    FINGERPRINT_BYTES,
    MAX_PAGE_SIZE,
    MIN_PAGE_SIZE,
    ROW_SIZE,
    Layout,
    align,
    columns_for,
    fingerprint,
    with_table_at,
)
from headrace.formats.contract import BaseWriter
from headrace.storage import AtomicFile, Spool

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from headrace.errors import PathLike
    from headrace.formats.beton.columns import Column
    from headrace.types import Buffer, Encoded, Field

__all__ = ["BetonWriter", "checked_class_names", "encode_name"]

_SPOOL_BYTES = 32 << 20
_COPY_BYTES = 4 << 20
_CHUNK_SAMPLES = 256
_CHUNK_BYTES = 4 << 20


def encode_name(name: str) -> bytes:
    """Turn a sample's name into bytes; file names that are not UTF-8 keep theirs."""
    return name.encode("utf-8", "surrogateescape")


class BetonWriter(BaseWriter):
    """Writes a .beton file; it appears under its name when ``close`` succeeded, complete or not at all.

    Args:
        path: where the file goes; an existing one is replaced.
        fields: name to field, in order; names of at most 16 ASCII characters.
        page_size: a power of two from 2 MiB to 2 GiB that no sample may exceed. By default 8 MiB, and larger
            by itself when a sample needs it.
        length: number of samples, if known; saves moving data at the end of a large file.
        annex: put an annex into the file (FFCV does not notice it): checksums, schema, names, and the rest.
        class_names: field name to names of its classes.
        metadata: anything JSON can hold, about the whole dataset.
        jpeg_index: put a tile index of every JPEG into the annex, so that a crop is decoded without the rest of its
            picture; under 1 % of the JPEG's bytes, and under a millisecond for each.

    Example:
        >>> import os, tempfile
        >>> from headrace import Bytes, Int
        >>> path = os.path.join(tempfile.mkdtemp(), "x.beton")
        >>> with BetonWriter(path, {"data": Bytes(), "label": Int()}) as writer:
        ...     writer.append((b"abc", 7))
        >>> from headrace import open
        >>> open(path)[0]
        Sample(data=b'abc', label=7)
    """

    def __init__(
        self,
        path: PathLike,
        fields: Mapping[str, Field],
        *,
        page_size: int | None = None,
        length: int | None = None,
        annex: bool = True,
        class_names: Mapping[str, Sequence[str]] | None = None,
        metadata: Any = None,
        jpeg_index: bool = True,
    ) -> None:
        self._columns = columns_for(fields)
        self._fixed_page_size = page_size is not None
        self._page_size = _checked_page_size(page_size, self._columns)
        self._record = record_dtype(self._columns)
        self._slots = sum(c.slot is not None for c in self._columns)
        self._has_annex = annex
        extras = {CLASSES: checked_class_names(class_names, fields) or None, METADATA: metadata}
        # Encoded now: what JSON cannot hold is told before anything is written.
        self._extras = {name: list(json_section(value)) for name, value in extras.items() if value is not None}
        if not annex and self._extras:
            raise ValueError("class_names and metadata are kept in the annex; do not pass annex=False")
        self._pictures = sum(c.field.kind == "image" for c in self._columns) if annex and jpeg_index else 0
        self.encoder = ChunkEncoder(self._columns, is_indexing=self._pictures > 0)
        self._file = AtomicFile(path)
        self._is_open = True
        metadata_end = self._layout(length or 0).metadata_end
        self._base = align(metadata_end, self._page_size)
        self._cursor = 0  # relative to the first data page, as are all pointers until close
        self._count = 0
        self._has_names: bool | None = None
        self._pending: list[list[Encoded]] = []
        self._pending_names: list[str] = []
        self._pending_bytes = 0
        directory = self._file.path.rpartition("/")[0] or "/"
        (
            self._records,
            self._table,
            self._checksums,
            self._names,
            self._name_lengths,
            self._tile_indices,
            self._tile_index_sizes,
        ) = (Spool(directory, max_bytes=_SPOOL_BYTES) for _ in range(7))

    def _layout(self, num_samples: int) -> Layout:
        return Layout(
            page_size=self._page_size,
            num_samples=num_samples,
            alloc_table_ptr=0,
            columns=self._columns,
            record=self._record,
        )

    def __len__(self) -> int:
        """Samples taken so far."""
        return self._count + len(self._pending)

    @property
    def size_bytes(self) -> int:
        """Bytes of data placed so far."""
        return self._cursor

    def append(self, sample: Any, *, name: str | None = None) -> None:
        """Add one sample: a tuple in field order, a mapping, or the bare value of a single field."""
        self._check_open()
        row = self.encoder.encode(sample, len(self))
        sizes = [len(encoded.payload) for encoded in row if encoded.payload is not None]
        self._check_fits(len(self), sum(max(1, size) for size in sizes))
        if name is not None:
            encode_name(name)
        self._check_names(name is not None)
        # From here on nothing fails: a sample that was refused leaves no trace, and the next may follow.
        self._pending.append(row)
        if name is not None:
            self._pending_names.append(name)
        self._pending_bytes += sum(sizes)
        if len(self._pending) >= _CHUNK_SAMPLES or self._pending_bytes >= _CHUNK_BYTES:
            self._flush()

    def _flush(self) -> None:
        if self._pending:
            rows, self._pending, self._pending_bytes = self._pending, [], 0
            names, self._pending_names = self._pending_names, []
            self.append_chunk(self.encoder.join(rows), names=names if self._has_names else None)

    def append_chunk(self, chunk: EncodedChunk, *, names: Sequence[str] | None = None) -> None:
        """Add samples that ``encoder`` has encoded, and their names; chunks must come in order."""
        self._check_open()
        self._flush()
        self._check_names(names is not None)
        encoded_names = [encode_name(name) for name in names or ()]
        pointers = self._place(chunk.sizes, self._count)
        if self._slots:
            self._write_payloads(chunk, pointers)
        self._records.write(chunk.records)
        self._table.write(self._table_rows(chunk, pointers).tobytes())
        if self._has_annex:
            self._checksums.write(chunk.checksums.astype("<u4").tobytes())
        if self._pictures:
            self._tile_indices.write(b"".join(chunk.tile_indices))
            self._tile_index_sizes.write(np.fromiter(map(len, chunk.tile_indices), "<u4").tobytes())
        self._names.write(b"".join(encoded_names))
        self._name_lengths.write(np.fromiter(map(len, encoded_names), "<u4").tobytes())
        self._count += len(chunk)

    def _check_names(self, has_names: bool) -> None:
        if has_names and not self._has_annex:
            raise ValueError("names are kept in the annex; do not pass annex=False")
        if self._has_names not in (None, has_names):
            raise ValueError("either all samples have a name or none has")
        self._has_names = has_names

    def _place(self, sizes: npt.NDArray[np.uint64], first_index: int) -> npt.NDArray[np.uint64]:
        try:
            pointers, self._cursor = _native.place(sizes, self._cursor, self._page_size, 0)
        except _native.NativeError as error:
            if error.code != "too_large":
                raise
            # Samples before the large one stay where any other split into chunks would have put them.
            row = error.offset
            before = self._place(sizes[:row], first_index)
            self._grow_page(first_index + row, int(np.maximum(sizes[row], 1).sum()))
            return np.concatenate([before, self._place(sizes[row:], first_index + row)])
        return pointers

    def _check_fits(self, sample: int, size_bytes: int) -> None:
        if size_bytes <= (self._page_size if self._fixed_page_size else MAX_PAGE_SIZE):
            return
        possible = size_bytes <= MAX_PAGE_SIZE
        raise SampleTooLargeError(
            sample=sample,
            size_bytes=size_bytes,
            page_size=self._page_size if possible else MAX_PAGE_SIZE,
            needed_page_size=_page_for(size_bytes) if possible else None,
        )

    def _grow_page(self, sample: int, size_bytes: int) -> None:
        # What fits on a page also fits on a larger one that begins where a smaller one begins; the first data
        # page is moved to a multiple of the final page size in close().
        self._check_fits(sample, size_bytes)
        self._page_size = _page_for(size_bytes)
        self._cursor = align(self._cursor, self._page_size)

    def _write_payloads(self, chunk: EncodedChunk, pointers: npt.NDArray[np.uint64]) -> None:
        starts = pointers.reshape(-1)
        ends = starts + chunk.sizes.reshape(-1)
        breaks = np.flatnonzero(starts[1:] != ends[:-1]) + 1
        bounds = [0, *breaks.tolist(), len(starts)]
        for first, last in pairwise(bounds):
            self._file.position = self._base + int(starts[first])
            self._file.write(chunk.payloads[first:last])

    def _table_rows(self, chunk: EncodedChunk, pointers: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
        rows = np.empty((len(chunk), self._slots, 3), "<u8")
        rows[:, :, 0] = np.arange(self._count, self._count + len(chunk), dtype=np.uint64)[:, None]
        rows[:, :, 1] = pointers
        rows[:, :, 2] = chunk.sizes
        return rows

    def close(self) -> None:
        """Finish the file and give it its name; does nothing when it is closed already."""
        if not self._is_open:
            return
        try:
            self._flush()
            if self._count == 0:
                raise ValueError(
                    f"{self._file.path}: no samples were written, and a .beton needs at least one; no file was made"
                )
            self._finish()
            self._file.commit()
        except BaseException:
            self.abort()
            raise
        self._release()

    def _finish(self) -> None:
        layout = self._layout(self._count)
        base = align(max(layout.metadata_end, self._base), self._page_size)
        if self._slots and base > self._base:
            self._file.insert_space(self._base, base - self._base)
        data_end = base + align(self._cursor, self._page_size) if self._slots else layout.metadata_end
        self._write_metadata(layout, base)
        self._file.position = data_end
        if self._has_annex:
            self._write_annex(layout, base, data_end)
        layout = with_table_at(layout, self._file.position)
        self._file.write_at(0, layout.pack())
        for rows in self._final_table(base):
            self._file.write([rows.view(np.uint8).reshape(-1)])
        self._file.truncate()

    def _write_metadata(self, layout: Layout, base: int) -> None:
        self._file.position = layout.metadata_start
        for block, rows in zip(self._record_blocks(), self._final_table(base, by_sample=True), strict=True):
            records = np.frombuffer(bytearray(block), self._record)
            raw = records.view(np.uint8).reshape(len(records), -1)
            for slot, (offset, size) in enumerate(layout.pointer_holes()):
                raw[:, offset : offset + size] = rows[:, slot, 1].copy().view(np.uint8).reshape(-1, 8)
            self._file.write([raw.reshape(-1)])

    def _record_blocks(self) -> Iterator[bytes]:
        yield from _blocks(self._records, self._record.itemsize * self._block_samples)

    @property
    def _block_samples(self) -> int:
        per_sample = max(self._record.itemsize, ROW_SIZE * self._slots)
        return max(1, _COPY_BYTES // per_sample)

    def _final_table(self, base: int, *, by_sample: bool = False) -> Iterator[npt.NDArray[np.uint64]]:
        if not self._slots:
            if by_sample:
                blocks = -(-self._count // self._block_samples)
                yield from (np.empty((0, 0, 3), "<u8") for _ in range(blocks))
            return
        for block in _blocks(self._table, ROW_SIZE * self._slots * self._block_samples):
            rows = np.frombuffer(bytearray(block), "<u8").reshape(-1, self._slots, 3)
            rows[:, :, 1] += np.uint64(base)
            yield rows

    def _write_annex(self, layout: Layout, base: int, data_end: int) -> None:
        sections: dict[str, Iterable[Buffer]] = {
            CHECKSUMS: checksums_section(1 + self._slots, _blocks(self._checksums, _COPY_BYTES)),
            SCHEMA: json_section([[c.name, to_spec(c.field)] for c in self._columns]),
        }
        if self._has_names:
            self._name_lengths.seek(0)
            lengths = np.frombuffer(self._name_lengths.read(), "<u4")
            sections[NAMES] = names_section(lengths, _blocks(self._names, _COPY_BYTES))
        if self._pictures:
            self._tile_index_sizes.seek(0)
            sizes = np.frombuffer(self._tile_index_sizes.read(), "<u4")
            if sizes.any():
                sections[TILE_INDEX] = tile_index_section(
                    self._pictures, sizes, _blocks(self._tile_indices, _COPY_BYTES)
                )
        sections |= self._extras
        table_size = ROW_SIZE * self._slots * self._count

        write_annex(
            self._file.write,
            sections,
            num_samples=self._count,
            dataset_size=lambda annex_size: data_end + annex_size + table_size,
            dataset_fingerprint=lambda annex_size: fingerprint(
                with_table_at(layout, data_end + annex_size).pack(), self._last_rows(base)
            ),
        )

    def _last_rows(self, base: int) -> npt.NDArray[np.uint8]:
        total = self._count * self._slots
        count = min(total, FINGERPRINT_BYTES // ROW_SIZE + 1)
        self._table.seek((total - count) * ROW_SIZE)
        rows = np.frombuffer(bytearray(self._table.read(count * ROW_SIZE)), "<u8").reshape(-1, 3)
        rows[:, 1] += np.uint64(base)
        return rows.view(np.uint8).reshape(-1)

    def abort(self) -> None:
        """Throw away what was written; nothing is left behind."""
        self._file.abort()
        self._release()

    def _release(self) -> None:
        self._is_open = False
        spools = (self._records, self._table, self._checksums, self._names, self._name_lengths)
        for spool in (*spools, self._tile_indices, self._tile_index_sizes):
            spool.close()

    def _check_open(self) -> None:
        if not self._is_open:
            raise ClosedError(f"{self._file.path}: the writer is closed")


def _blocks(spool: Spool, size: int) -> Iterator[bytes]:
    spool.seek(0)
    while block := spool.read(size):
        yield block


def _page_for(size_bytes: int) -> int:
    return max(MIN_PAGE_SIZE, 1 << max(0, size_bytes - 1).bit_length())


def _checked_page_size(page_size: int | None, columns: tuple[Column, ...]) -> int:
    if page_size is None:
        known = sum(c.field.max_size_bytes() or 0 for c in columns)
        return min(max(DEFAULT_PAGE_SIZE, 1 << max(0, known - 1).bit_length()), MAX_PAGE_SIZE)
    if page_size & (page_size - 1) or not MIN_PAGE_SIZE <= page_size <= MAX_PAGE_SIZE:
        raise ValueError(
            f"page_size must be a power of two from {MIN_PAGE_SIZE} (2 MiB) to {MAX_PAGE_SIZE} (2 GiB), got {page_size}"
        )
    return page_size


def checked_class_names(
    class_names: Mapping[str, Sequence[str]] | None, fields: Mapping[str, Field]
) -> dict[str, list[str]]:
    """Class names as plain lists, their fields checked."""
    result = {name: list(values) for name, values in (class_names or {}).items()}
    for name in result:
        if name not in fields or fields[name].kind != "int":
            raise ValueError(f"class_names[{name!r}]: there is no Int field of that name")
    return result
