"""What the sections of an annex hold.

``checksums``  algorithm u16 (1 = CRC32C), columns u16, reserved u32, then num_samples x columns u32.
               Column 0 covers the sample's metadata record with its pointers taken as zero, the others cover
               the payloads of the fields that have one, in field order.
``names``      num_samples + 1 offsets u64 into the text that follows: UTF-8, nothing between the names.
``classes``    JSON: field name to list of class names.
``schema``     JSON: list of [field name, field spec] in field order.
``metadata``   JSON: whatever the user gave.
``jpeg_tiles`` columns u16 (fields with pictures), reserved u16 and u32, then num_samples x columns + 1 offsets u64 into
               the bytes that follow: for every picture, sample by sample, its packed index of entry points (see
               headrace.codecs.jpeg.index), or nothing.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, overload

import numpy as np
import numpy.typing as npt

from headrace._native import locate_tile_indices
from headrace.progress import format_count
from headrace.types import StoredSpans

if TYPE_CHECKING:
    from headrace.annex.container import Annex
    from headrace.storage import StoredFile
    from headrace.types import Announcement, Buffer

__all__ = [
    "CHECKSUMS",
    "CLASSES",
    "METADATA",
    "NAMES",
    "PROBES",
    "SCHEMA",
    "TILE_INDEX",
    "Names",
    "TileIndex",
    "checksums_section",
    "hold_sections",
    "json_section",
    "names_section",
    "read_checksums",
    "read_json",
    "read_names",
    "read_tile_index",
    "tile_index_section",
]

CHECKSUMS, NAMES, CLASSES, SCHEMA, METADATA = "checksums", "names", "classes", "schema", "metadata"
TILE_INDEX = "jpeg_tiles"
PROBES = "probes"
_CHECKSUMS_HEAD = struct.Struct("<HHI")
_TILE_INDEX_HEAD = struct.Struct("<HHI")
_CRC32C = 1
_MAX_JSON_BYTES = 256 << 20
_NEAR_BYTES = 256 << 10
_FEW_BYTES = 32 << 20  # of tile indices: they come at once


def checksums_section(columns: int, pieces: Iterable[Buffer]) -> Iterator[Buffer]:
    """Make the bytes of ``checksums`` from pieces of the u32 table."""
    yield _CHECKSUMS_HEAD.pack(_CRC32C, columns, 0)
    yield from pieces


def names_section(lengths: npt.NDArray[np.uint32], pieces: Iterable[Buffer]) -> Iterator[Buffer]:
    """Make the bytes of ``names`` from the names' lengths in bytes and pieces of their text."""
    offsets = np.zeros(len(lengths) + 1, "<u8")
    np.cumsum(lengths, out=offsets[1:])
    yield offsets.view(np.uint8)
    yield from pieces


def json_section(value: Any) -> Iterator[Buffer]:
    """Make the bytes of a JSON section; ASCII, because file names that are not UTF-8 must survive too."""
    yield json.dumps(value).encode("ascii")


def tile_index_section(columns: int, sizes: npt.NDArray[np.uint32], pieces: Iterable[Buffer]) -> Iterator[Buffer]:
    """Make the bytes of ``jpeg_tiles`` from the sizes of the indices and pieces of their bytes."""
    yield _TILE_INDEX_HEAD.pack(columns, 0, 0)
    yield from names_section(sizes, pieces)


def hold_sections(annex: Annex, names: Iterable[str], tile_columns: int = 0) -> None:
    """Fetch sections that will be read, neighbours by one request; does nothing where the annex is on this machine.

    Args:
        annex: opened.
        names: of the sections; those that it does not have are left out.
        tile_columns: fields with pictures, if the offsets of their tile indices will be needed.
    """
    if annex.file.is_local:
        return
    spans = [place for place in map(annex.place, names) if place is not None]
    if tile_columns and (tiles := annex.place(TILE_INDEX)) is not None:
        spans.append((tiles[0], min(tiles[1], tiles[0] + _offsets_end(annex, tile_columns))))
    held: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if held and start - held[-1][1] <= _NEAR_BYTES:
            start, end = held[-1][0], max(held.pop()[1], end)
        held.append((start, end))
    for start, end in held:
        annex.file.hold(start, end)


def _offsets_end(annex: Annex, columns: int) -> int:
    """Where in ``jpeg_tiles`` the packed indices begin."""
    return _TILE_INDEX_HEAD.size + 8 * (annex.num_samples * columns + 1)


def read_tile_index(annex: Annex, columns: int) -> TileIndex | None:
    """The indices of the pictures, or None; offsets and indices are checked as they are used."""
    place = annex.place(TILE_INDEX)
    if place is None:
        return None
    start, end = place
    first = start + _offsets_end(annex, columns)
    held = annex.file.hold(start, first) if first <= end else None
    if held is None or _TILE_INDEX_HEAD.unpack(held[: _TILE_INDEX_HEAD.size])[0] != columns:
        raise annex.fail(
            TILE_INDEX,
            f"has {format_count(end - start, 'byte')}, which cannot hold indices for {format_count(columns, 'field')}",
        )
    offsets = np.require(held[_TILE_INDEX_HEAD.size :].view("<u8"), requirements="A")
    return TileIndex(columns, offsets, annex.file.mapped[first:end], None if annex.file.is_local else annex.file, first)


@dataclass(frozen=True, slots=True, eq=False)
class TileIndex:
    """Packed indices of pictures: that of column c of sample i is entry ``i * columns + c`` of the offsets.

    Attributes:
        columns: fields with pictures.
        offsets: where in the packed bytes each index begins, and the last one ends.
        packed: of all indices.
        file: what the packed bytes must be fetched from, where they are not on this machine.
        first: where in that file they begin.
    """

    columns: int
    offsets: npt.NDArray[np.uint64]
    packed: npt.NDArray[np.uint8]
    file: StoredFile | None = None
    first: int = 0

    def _find(
        self, indices: npt.NDArray[np.int64], column: int
    ) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
        entries = np.ascontiguousarray(indices * self.columns + column, np.int64)
        return locate_tile_indices(self.offsets, len(self.packed), entries)

    def locate(
        self, indices: npt.NDArray[np.int64], column: int
    ) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
        """The bytes of indices, and where in them those of some samples begin and how long they are; 0 is none."""
        begins, sizes = self._find(indices, column)
        if self.file is None:
            return self.packed, begins, sizes
        self._hold_few(self.file)
        base, starts = self.file.region(begins + np.uint64(self.first), sizes)
        self.file.check()
        return base, starts, sizes

    def announce(self, indices: npt.NDArray[np.int64], column: int) -> Announcement | None:
        """Begin to bring what ``locate`` will ask for."""
        if self.file is None:
            return None
        self._hold_few(self.file)
        begins, sizes = self._find(indices, column)
        return self.file.announce(begins + np.uint64(self.first), sizes)

    def stored_spans(self, indices: npt.NDArray[np.int64], column: int) -> list[StoredSpans]:
        """What ``announce`` of these would bring."""
        if self.file is None:
            return []
        begins, sizes = self._find(indices, column)
        owners = np.arange(len(indices))
        return [StoredSpans(self.file.path, self.file.size_bytes, owners, begins + np.uint64(self.first), sizes)]

    def _hold_few(self, file: StoredFile) -> None:
        """Bring all indices by one request, where they are not many, instead of some of them for every page."""
        if len(self.packed) <= _FEW_BYTES:
            file.hold(self.first, self.first + len(self.packed))

    def stored(self, indices: npt.NDArray[np.int64], column: int) -> Iterator[tuple[int, npt.NDArray[np.uint8] | None]]:
        """Those samples that have an index, by position, and the index; None where its offsets make no sense."""
        packed, begins, sizes = self.locate(indices, column)
        entries = indices * self.columns + column
        is_there = self.offsets[entries] != self.offsets[entries + 1]
        for i in np.flatnonzero(is_there).tolist():
            begin, size = int(begins[i]), int(sizes[i])
            yield i, packed[begin : begin + size] if size else None

    @property
    def count(self) -> int:
        """Pictures that have an index."""
        return int((self.offsets[1:] > self.offsets[:-1]).sum())


def read_checksums(annex: Annex, columns: int) -> npt.NDArray[np.uint32] | None:
    """The table of checksums, num_samples x columns, or None."""
    data = annex.section(CHECKSUMS)
    if data is None:
        return None
    expected = _CHECKSUMS_HEAD.size + annex.num_samples * columns * 4
    if len(data) != expected:
        raise annex.fail(CHECKSUMS, f"has {format_count(len(data), 'byte')}, {expected} expected")
    algorithm, stored_columns, _ = _CHECKSUMS_HEAD.unpack(data[: _CHECKSUMS_HEAD.size])
    if (algorithm, stored_columns) != (_CRC32C, columns):
        raise annex.fail(
            CHECKSUMS, f"has algorithm {algorithm} and {format_count(stored_columns, 'column')}, {columns} expected"
        )
    return np.require(data[_CHECKSUMS_HEAD.size :].view("<u4"), requirements="A").reshape(-1, columns)


def read_names(annex: Annex) -> Names | None:
    """The samples' names, or None."""
    data = annex.section(NAMES)
    if data is None:
        return None
    offsets_size = 8 * (annex.num_samples + 1)
    if len(data) < offsets_size:
        raise annex.fail(NAMES, f"has {format_count(len(data), 'byte')}, at least {offsets_size} expected")
    offsets = data[:offsets_size].view("<u8")
    text = data[offsets_size:]
    if offsets[0] != 0 or offsets[-1] != len(text) or bool((offsets[1:] < offsets[:-1]).any()):
        raise annex.fail(NAMES, "has offsets that do not ascend from 0 to the end of the text")
    return Names(offsets, text)


def read_json(annex: Annex, name: str) -> Any:
    """The value of a JSON section, or None."""
    data = annex.section(name)
    if data is None:
        return None
    if len(data) > _MAX_JSON_BYTES:
        raise annex.fail(name, f"has {format_count(len(data), 'byte')}, the most is {_MAX_JSON_BYTES}")
    try:
        return json.loads(data.tobytes().decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise annex.fail(name, f"is not JSON ({error})") from None


class Names(Sequence[str]):
    """Names of samples: a sequence of strings over the mapped file, so ten million of them cost nothing."""

    def __init__(self, offsets: npt.NDArray[np.uint64], text: npt.NDArray[np.uint8]) -> None:
        self._offsets = offsets
        self._text = text
        self._positions: dict[str, int] | None = None

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def section(self) -> Iterator[Buffer]:
        """The bytes of ``names`` again."""
        yield np.ascontiguousarray(self._offsets, "<u8").view(np.uint8)
        yield self._text

    @overload
    def __getitem__(self, key: int) -> str: ...
    @overload
    def __getitem__(self, key: slice) -> list[str]: ...
    def __getitem__(self, key: int | slice) -> str | list[str]:
        if isinstance(key, slice):
            return [self[i] for i in range(*key.indices(len(self)))]
        i = range(len(self))[key]
        raw = self._text[int(self._offsets[i]) : int(self._offsets[i + 1])]
        return raw.tobytes().decode("utf-8", "surrogateescape")

    def block(self, start: int, stop: int) -> tuple[bytes, npt.NDArray[np.int64]]:
        """UTF-8 of the names from one to before another, without anything between them, and where each ends."""
        offsets = self._offsets[start : stop + 1].astype(np.int64)
        return self._text[int(offsets[0]) : int(offsets[-1])].tobytes(), offsets[1:] - offsets[0]

    def index(self, value: Any, start: int = 0, stop: int | None = None) -> int:
        """Index of the first sample with this name; ValueError when there is none."""
        if start != 0 or stop is not None:
            return super().index(value, start, len(self) if stop is None else stop)
        if self._positions is None:
            self._positions = {name: i for i, name in reversed(list(enumerate(self)))}
        try:
            return self._positions[value]
        except KeyError:
            raise ValueError(f"no sample is called {value!r}") from None
