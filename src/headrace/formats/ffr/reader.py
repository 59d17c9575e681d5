"""Samples of .ffr files as arrays, many in one call.

Contract. A reader is immutable after opening, so any number of threads may use it, and it survives fork; pickling
stores paths and options, and unpickling opens the files again. Data that are in the page cache are copied from the
mapped files; data that are not are read by a queue of asynchronous reads (one for all files), which is made when it is
needed first. If somebody cuts a file short meanwhile, every read that follows says so. Of an object in a store the
header is held, and samples are fetched as they are asked for.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from headrace import _native
from headrace.errors import ClosedError, CorruptSampleError, FormatError
from headrace.formats.contract import normalize_indices
from headrace.formats.ffr.layout import Layout, read_layout
from headrace.formats.threads import map_ahead
from headrace.progress import format_count
from headrace.storage import ColdReads, absolute, file_identity, is_remote, join_announcements, open_stored
from headrace.types import StoredSpans

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from headrace.errors import PathLike
    from headrace.storage import StoredFile
    from headrace.types import Announcement, IndexArray, Indices

__all__ = ["FfrReader", "FfrSpans"]

_BAD_SIZE = np.uint64(2**64 - 1)
_RESTORE = "Restore the file from a copy, or leave the sample out."
_REPLACED = "Replace files by renaming, never in place, and open them again afterwards."
_FIELD = "data"
_UINT8 = np.dtype(np.uint8)
_FETCHED_AT_ONCE = 16  # headers of objects
_KEPT_BYTES = 256 << 20  # memory of samples that were let go


@dataclass(frozen=True, slots=True)
class FfrSpans:
    """Where samples are: which file, from which byte on, how many, and the checksum that they should have."""

    files: npt.NDArray[np.uint32]
    offsets: npt.NDArray[np.uint64]
    sizes: npt.NDArray[np.uint64]
    checksums: npt.NDArray[np.uint32]

    def __len__(self) -> int:
        return len(self.offsets)

    def is_bad(self) -> npt.NDArray[np.bool_]:
        """Samples whose offsets cannot be right."""
        bad: npt.NDArray[np.bool_] = self.sizes == _BAD_SIZE
        return bad

    def some(self, positions: IndexArray) -> FfrSpans:
        """Those at some positions."""
        return FfrSpans(
            self.files[positions], self.offsets[positions], self.sizes[positions], self.checksums[positions]
        )

    def by_file(self) -> list[tuple[int, IndexArray]]:
        """The files, and which of the samples lie in each."""
        return [(file, np.flatnonzero(self.files == file)) for file in np.unique(self.files).tolist()]


class FfrReader:
    """One or several .ffr files as a sequence of byte arrays, counted one file after the other.

    Args:
        paths: a file, or several.
        checksums: check the header when opening, and every sample that is read.
        cold: how samples are read. True: past the page cache, for data that are read once and do not fit into
            memory. False: always from the mapped file. None: looks at a few samples of each batch; those in the cache
            are copied from it, others are read ahead of it, past the cache when the files would not fit into memory.

    Example:
        >>> import os, tempfile
        >>> from headrace.formats.ffr import FfrWriter
        >>> path = os.path.join(tempfile.mkdtemp(), "x.ffr")
        >>> with FfrWriter(path) as writer:
        ...     writer.append_many([b"zero", b"one", b"two"])
        >>> reader = FfrReader(path)
        >>> [sample.tobytes() for sample in reader.read([2, 0])]
        [b'two', b'zero']
    """

    def __init__(
        self, paths: PathLike | Sequence[PathLike], *, checksums: bool = True, cold: bool | None = None
    ) -> None:
        several = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
        if not several:
            raise ValueError("paths is empty; name at least one .ffr file")
        self._paths = tuple(os.fspath(path) for path in several)
        self._absolute = [absolute(path) for path in self._paths]
        self._options: dict[str, Any] = {"checksums": checksums, "cold": cold}
        is_remote_any = any(map(is_remote, self._paths))
        identities = [] if is_remote_any else [file_identity(path) for path in self._paths]
        opened = partial(_open_part, is_checked=checksums)
        threads = _FETCHED_AT_ONCE if is_remote_any else 1
        parts = list(map_ahead(opened, self._paths, threads=threads) if threads > 1 else map(opened, self._paths))
        self._files = [file for file, _ in parts]
        self._layouts = [layout for _, layout in parts]
        counts = [layout.num_samples for layout in self._layouts]
        self._starts = np.cumsum([0, *counts])
        self._table: _native.FfrTable | None = _native.FfrTable([file.mapped for file in self._files], counts)
        self.is_local = all(file.is_local for file in self._files)
        self._cold: ColdReads | None = None
        if self.is_local:
            self._cold = ColdReads(self._absolute, identities, size_bytes=self.size_bytes, cold=cold)
        self._pool = _native.BufferPool(_KEPT_BYTES)
        self.check_files(range(len(self._paths)))

    @property
    def paths(self) -> tuple[str, ...]:
        """The files, in order."""
        return self._paths

    @property
    def layouts(self) -> list[Layout]:
        """What the header of each file says."""
        return list(self._layouts)

    @property
    def is_checked(self) -> bool:
        """Every sample that is read is checked."""
        return bool(self._options["checksums"])

    @property
    def size_bytes(self) -> int:
        """Bytes of all files."""
        return sum(layout.size_bytes for layout in self._layouts)

    @property
    def is_closed(self) -> bool:
        """``close`` was called."""
        return self._table is None

    @property
    def reading(self) -> str:
        """How samples are read, in words."""
        return "fetched from the store" if self._cold is None else self._cold.describe()

    def __len__(self) -> int:
        return int(self._starts[-1])

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopen, (self._absolute, self._options)

    def close(self) -> None:
        """Let go of the files. Views that were handed out stay valid."""
        self._table = None
        for file in self._files:
            file.close()
        if self._cold is not None:
            self._cold.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: Any) -> None:
        self.close()

    @property
    def table(self) -> _native.FfrTable:
        """Where samples are."""
        if self._table is None:
            raise ClosedError(f"{self._paths[0]}: the reader is closed; open it again")
        return self._table

    def mapped(self, file: int = 0) -> npt.NDArray[np.uint8]:
        """The bytes of a whole file, read-only; an object of a store is fetched whole."""
        return self.stored(file).hold(0, self._layouts[file].size_bytes)

    def stored(self, file: int = 0) -> StoredFile:
        """A file as it was opened; its header is held."""
        _ = self.table
        return self._files[file]

    def header(self, file: int = 0) -> npt.NDArray[np.uint8]:
        """The bytes in front of the samples of a file, read-only."""
        return self.stored(file).hold(0, self._layouts[file].header_end)

    def offsets(self, file: int = 0) -> npt.NDArray[np.int64]:
        """Where each sample of a file begins, and as last entry the size of the file; a copy."""
        header, layout = self.header(file), self._layouts[file]
        return np.append(layout.offsets(header), layout.size_bytes)

    def checksums(self, file: int = 0) -> npt.NDArray[np.uint32]:
        """The stored CRC-32 of each sample of a file; a copy."""
        return self._layouts[file].checksums(self.header(file)).copy()

    def locate(self, indices: Indices) -> FfrSpans:
        """Find samples; those whose offsets cannot be right are marked, see ``FfrSpans.is_bad``."""
        return FfrSpans(*self.table.locate(self._checked(indices)))

    def _checked(self, indices: Indices) -> IndexArray:
        array = np.asarray(indices)
        if array.dtype.kind == "i" and len(array) and int(array.min()) < 0:
            raise IndexError(f"sample {int(array.min())} does not exist; samples are 0 to {len(self) - 1}")
        return normalize_indices(array, len(self))

    def sizes(self, indices: Indices) -> npt.NDArray[np.int64]:
        """Bytes of samples."""
        return self._find(indices)[1].sizes.astype(np.int64)

    def read(self, indices: Indices) -> list[npt.NDArray[np.uint8]]:
        """Read any number of samples, each into an array of its own that may be kept and written to."""
        where, spans = self._find(indices)
        if not self.is_local:
            return [np.array(view) for view in self._fetched(where, spans)]
        # Large ones lie in memory as they lie on the disk's blocks: then a direct read needs no copy.
        outs: list[Any] = self._pool.take(spans.sizes, spans.offsets)
        self._fill(where, spans, outs)
        return [np.frombuffer(out, _UINT8) for out in outs]

    def read_one(self, index: int) -> npt.NDArray[np.uint8]:
        """Read one sample."""
        return self.read([index])[0]

    def read_into(self, indices: Indices, out: npt.NDArray[np.uint8]) -> npt.NDArray[np.int64]:
        """Read samples one after the other into an array; sample i is then ``out[ends[i] - size : ends[i]]``.

        Args:
            indices: which samples.
            out: a contiguous uint8 array with room for all of them.

        Returns:
            Where each sample ends in ``out``.
        """
        where, spans = self._find(indices)
        ends = np.cumsum(spans.sizes.astype(np.int64))
        total = int(ends[-1]) if len(ends) else 0
        if out.dtype != np.uint8 or out.ndim != 1 or len(out) < total:
            raise ValueError(
                f"out must be a 1-D uint8 array of at least {format_count(total, 'byte')}, "
                f"got {out.dtype} of shape {out.shape}"
            )
        places = (ends - spans.sizes.astype(np.int64)).astype(np.uint64)
        if not self.is_local:
            for place, view in zip(places.tolist(), self._fetched(where, spans), strict=True):
                out[place : place + len(view)] = view
        elif (queue := self._queue_for(spans)) is not None:
            sums = spans.checksums if self.is_checked else None
            failures = queue.read(spans.offsets, spans.sizes, out, places, sums, "crc32", spans.files)
            self._raise_first(where, spans, failures)
        else:
            found = self._new_checksums(spans)
            self.table.copy_into(spans.files, spans.offsets, spans.sizes, out, places, found)
            self._compare(where, spans, found)
        return ends

    def read_bytes(self, indices: Indices) -> list[bytes]:
        """Read samples as bytes objects."""
        where, spans = self._find(indices)
        if not self.is_local:
            return [view.tobytes() for view in self._fetched(where, spans)]
        if (queue := self._queue_for(spans)) is not None:
            outs: list[Any] = self._pool.take(spans.sizes, spans.offsets)
            self._read_cold(queue, where, spans, outs)
            return [bytes(out) for out in outs]
        found = self._new_checksums(spans)
        values = self.table.copy_bytes(spans.files, spans.offsets, spans.sizes, found)
        self._compare(where, spans, found)
        return values

    def views(self, indices: Indices) -> list[npt.NDArray[np.uint8]]:
        """Read-only arrays straight on the files' bytes: nothing is copied, and no checksum is computed.

        Of an object in a store they are copies, and are checked.
        """
        where, spans = self._find(indices)
        if not self.is_local:
            return [np.frombuffer(view.tobytes(), np.uint8) for view in self._fetched(where, spans)]
        rows = zip(spans.files.tolist(), spans.offsets.tolist(), spans.sizes.tolist(), strict=True)
        return [self._files[file].mapped[offset : offset + size] for file, offset, size in rows]

    # Objects of a store

    def announce(self, indices: Indices) -> Announcement | None:
        """Begin to bring samples; of those whose offsets cannot be right, reading them tells."""
        if self.is_local:
            return None
        spans = self.locate(indices)
        if spans.is_bad().any():
            return None
        parts = spans.by_file()
        return join_announcements(
            self._files[file].announce(spans.offsets[mine], spans.sizes[mine]) for file, mine in parts
        )

    def stored_spans(self, indices: Indices) -> list[StoredSpans]:
        """What ``announce`` of these samples would bring."""
        spans, files = self.locate(indices), self._files
        return [
            StoredSpans(files[file].path, files[file].size_bytes, mine, spans.offsets[mine], spans.sizes[mine])
            for file, mine in spans.by_file()
        ]

    def regions(self, spans: FfrSpans) -> Iterator[tuple[IndexArray, npt.NDArray[np.uint8], npt.NDArray[np.uint64]]]:
        """For each file: which of the spans lie in it, memory that holds them, and where in it they begin."""
        _ = self.table
        for file, mine in spans.by_file():
            base, starts = self._files[file].region(spans.offsets[mine], spans.sizes[mine])
            yield mine, base, starts

    def _fetched(self, where: IndexArray, spans: FfrSpans) -> Iterator[npt.NDArray[np.uint8]]:
        """The bytes of samples that are somewhere else, checked; each until the next one is asked for."""
        found = self._new_checksums(spans)
        held: list[npt.NDArray[np.uint8]] = []
        places = np.empty((len(spans), 2), np.int64)
        for mine, base, starts in self.regions(spans):
            if found is not None:
                found[mine] = _native.crc32_spans(base, starts, spans.sizes[mine])
            places[mine, 0], places[mine, 1] = len(held), starts
            held.append(base)
        self._compare(where, spans, found)
        for (number, start), size in zip(places.tolist(), spans.sizes.tolist(), strict=True):
            yield held[number][start : start + size]

    def _find(self, indices: Indices) -> tuple[IndexArray, FfrSpans]:
        where = self._checked(indices)
        spans = FfrSpans(*self.table.locate(where))
        bad = spans.is_bad()
        if bad.any():
            raise self.misplaced(where, spans, int(np.argmax(bad)))
        return where, spans

    def _fill(self, where: IndexArray, spans: FfrSpans, outs: list[Any]) -> None:
        if (queue := self._queue_for(spans)) is not None:
            self._read_cold(queue, where, spans, outs)
            return
        found = self._new_checksums(spans)
        self.table.copy_into_each(spans.files, spans.offsets, spans.sizes, outs, found)
        self._compare(where, spans, found)

    def _read_cold(self, queue: _native.RangeReader, where: IndexArray, spans: FfrSpans, outs: list[Any]) -> None:
        sums = spans.checksums if self.is_checked else None
        failures = queue.read_into(spans.offsets, spans.sizes, outs, sums, "crc32", spans.files)
        self._raise_first(where, spans, failures)

    def _new_checksums(self, spans: FfrSpans) -> npt.NDArray[np.uint32] | None:
        return np.empty(len(spans), np.uint32) if self.is_checked else None

    def _compare(self, where: IndexArray, spans: FfrSpans, found: npt.NDArray[np.uint32] | None) -> None:
        self.check_files(set(spans.files.tolist()) if len(self._paths) > 1 else (0,))
        if found is None or np.array_equal(found, spans.checksums):
            return
        position = int(np.argmax(found != spans.checksums))
        problem = f"checksum {spans.checksums[position]:#010x} expected, found {found[position]:#010x}"
        raise self.bad_sample(where, spans, position, problem)

    def _raise_first(self, where: IndexArray, spans: FfrSpans, failures: list[tuple[int, str, str]]) -> None:
        if not failures:
            return
        position, code, detail = failures[0]
        if code == "truncated":
            path = self._paths[spans.files[position]]
            raise FormatError(path, problem=f"the file became shorter while it was in use: {detail}", fix=_REPLACED)
        problem = detail if code == "wrong_checksum" else f"the sample cannot be read ({detail})"
        raise self.bad_sample(where, spans, position, problem)

    def misplaced(self, where: IndexArray, spans: FfrSpans, position: int) -> CorruptSampleError:
        """The error for a sample whose offsets cannot be right."""
        file = int(spans.files[position])
        layout, local = self._layouts[file], int(where[position] - self._starts[file])
        begin = int(spans.offsets[position].astype(np.int64))
        is_last = local + 1 == layout.num_samples
        end = layout.size_bytes if is_last else int(layout.offsets(self.header(file))[local + 1])
        problem = (
            f"the sample should lie from byte {begin} to {end}, and samples lie from byte {layout.header_end} to "
            f"{layout.size_bytes}"
        )
        return self.bad_sample(where, spans, position, problem)

    def bad_sample(self, where: IndexArray, spans: FfrSpans, position: int, problem: str) -> CorruptSampleError:
        """Make the error for one damaged sample."""
        file, index = int(spans.files[position]), int(where[position])
        if len(self._paths) > 1:
            problem += f" (sample {index - int(self._starts[file])} of this file)"
        offset = int(spans.offsets[position].astype(np.int64))
        is_inside = 0 <= offset <= self._layouts[file].size_bytes
        return CorruptSampleError(
            self._paths[file],
            sample=index,
            field=_FIELD,
            offset=offset if is_inside else None,
            problem=problem,
            fix=_RESTORE,
        )

    def check_files(self, files: Iterable[int]) -> None:
        """Raise FormatError if a part of one of these files could not be read, because somebody has cut it short."""
        for file in files:
            self._files[file].check()

    def _queue_for(self, spans: FfrSpans) -> _native.RangeReader | None:
        """What reads these samples; None when the mapped files do."""
        return None if self._cold is None else self._cold.reader_for(spans.files, spans.offsets, spans.sizes)


def _open_part(path: str, *, is_checked: bool) -> tuple[StoredFile, Layout]:
    file = open_stored(path)
    return file, read_layout(file, is_checked=is_checked)


def _reopen(paths: list[str], options: dict[str, Any]) -> FfrReader:
    return FfrReader(paths, **options)
