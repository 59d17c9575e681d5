"""The annex of a dataset whose values are read column by column: checksums and tile indices of its own fields.

The bytes of a value need not lie in one place there, so a checksum is that of the value in one form, whatever the file
made of it (``value_sums``; docs/formats/annex.md has the long form). ``SideFacts`` bind the annex to the dataset. One
that headrace wrote before it had checksums holds ``jpeg_tiles`` of one field alone, and is read all the same.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from headrace import _native
from headrace.annex import (
    CHECKSUMS,
    COLUMNS,
    SCHEMA,
    TILE_INDEX,
    Annex,
    checksums_section,
    json_section,
    new_side,
    new_side_path,
    open_side,
    read_checksums,
    read_json,
    read_tile_index,
    tile_index_section,
    write_annex,
)
from headrace.errors import AnnexError
from headrace.fields import Float, Int, to_spec
from headrace.formats.contract import index_chunks
from headrace.formats.threads import map_ahead
from headrace.formats.tile_index import tile_index_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from headrace.annex import TileIndex
    from headrace.errors import PathLike
    from headrace.formats.tile_index import SideFacts
    from headrace.types import Buffer, Field, IndexArray, Progress

__all__ = [
    "WRONG_VALUE",
    "ColumnAnnex",
    "find_column_annex",
    "refuse_options",
    "value_sums",
    "write_column_annex",
    "wrong_sums",
]

Stored = Sequence[Any] | npt.NDArray[Any]
WRONG_VALUE = "the value does not match its checksum in the annex"
_FORMAT = "values"
_CHUNK = 256
_NUMBERS = frozenset({"int", "float", "ndarray", "tensor"})


@dataclass(frozen=True, slots=True, eq=False)
class ColumnAnnex:
    """What an annex says about the values of fields.

    Attributes:
        specs: what each field was when the checksums were made, in the order of their columns.
        checksums: samples x fields, or None.
        pictures: fields with tile indices, in the order of their columns.
        tile_index: or None.
    """

    specs: Mapping[str, Mapping[str, Any]]
    checksums: npt.NDArray[np.uint32] | None
    pictures: Sequence[str]
    tile_index: TileIndex | None

    def covers(self, name: str, field: Field) -> bool:
        """There are checksums of a field, and what is stored of it has the form that they are of."""
        return self.checksums is not None and name in self.specs and _is_same_form(self.specs[name], to_spec(field))

    def sums(self, indices: IndexArray, name: str, field: Field) -> npt.NDArray[np.uint32] | None:
        """The checksums that values should have, or None."""
        if self.checksums is None or not self.covers(name, field):
            return None
        return np.ascontiguousarray(self.checksums[indices, list(self.specs).index(name)])

    def picture_column(self, name: str) -> int | None:
        """The column of a field in the tile index, or None."""
        return self.pictures.index(name) if self.tile_index is not None and name in self.pictures else None


def _is_same_form(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    kinds = {one.get("kind"), other.get("kind")}
    if len(kinds) == 1:
        return all(one.get(option) == other.get(option) for option in ("dtype", "shape"))
    if kinds == {"image", "ndarray"}:  # pixels
        return {one.get("dtype"), other.get("dtype")} == {"|u1", None}
    return not kinds & _NUMBERS


# Reading


def find_column_annex(facts: SideFacts, first_pictures: str | None) -> tuple[ColumnAnnex | None, str | None]:
    """The annex beside a dataset, and what is wrong with it; None and None where there is none.

    If it does not fit the dataset as it is now, but one of as many samples, it comes together with that problem: it
    says which samples are not what they were. Nobody else should use it.

    Args:
        facts: of the dataset.
        first_pictures: the field that indices are of where the annex does not say it.
    """
    try:
        side = open_side(facts.path, follow_links=facts.follow_links)
    except AnnexError as error:
        return None, f"{error.path}: {error.problem}"
    if side is None:
        return None, None
    problem = None
    for is_bound in (True, False):
        try:
            annex = Annex.find(
                side,
                num_samples=facts.num_samples,
                dataset_size=facts.size_bytes if is_bound else None,
                dataset_fingerprint=facts.fingerprint if is_bound else None,
            )
            if annex is None:
                return None, f"{side.path}: this is not an annex"
            return _read(annex, first_pictures), problem
        except AnnexError as error:
            problem = problem or f"{error.path}: {error.problem}"
    return None, problem


def _read(annex: Annex, first_pictures: str | None) -> ColumnAnnex:
    about = read_json(annex, COLUMNS)
    if about is None:
        pictures = [] if first_pictures is None else [first_pictures]
        return ColumnAnnex({}, None, pictures, read_tile_index(annex, 1) if pictures else None)
    specs = read_json(annex, SCHEMA)
    try:
        if about["format"] != _FORMAT:
            raise ValueError(f"it is of the format {about['format']!r}")
        columns, pictures = about["columns"], about["facts"]["pictures"]
        fields = {str(name): dict(spec) for name, spec in specs}
        if list(fields) != columns or not set(pictures) <= set(columns) or len(set(pictures)) != len(pictures):
            raise ValueError("its names do not belong together")
    except (KeyError, TypeError, ValueError) as error:
        raise annex.fail(COLUMNS, f"does not say what it should ({error})") from None
    checksums = read_checksums(annex, len(columns)) if columns else None
    return ColumnAnnex(fields, checksums, pictures, read_tile_index(annex, len(pictures)) if pictures else None)


# Writing


class _Made(NamedTuple):
    sums: npt.NDArray[np.uint32]
    packed: dict[str, list[bytes]]
    size_bytes: int


def write_column_annex(
    facts: SideFacts,
    schema: Mapping[str, Field],
    stored: Callable[[IndexArray, str], Stored],
    *,
    files: Iterable[str] = (),
    progress: Progress | None = None,
) -> str:
    """Write the annex of a dataset, by one pass over its values, and give its path.

    Args:
        facts: of the dataset.
        schema: its fields, as they are without options.
        stored: gives values of samples; called from several threads.
        files: fields whose values are whole files; those that are JPEGs get tile indices.
        progress: called as the work advances.
    """
    target = new_side_path(facts.path)
    files = list(files)

    def make(indices: IndexArray) -> _Made:
        sums, packed, size_bytes = np.empty((len(indices), len(schema)), "<u4"), {}, 0
        for column, (name, field) in enumerate(schema.items()):
            values = stored(indices, name)
            sums[:, column], sizes = value_sums(field, values)
            size_bytes += int(sizes.sum())
            if name in files and not isinstance(values, np.ndarray):
                packed[name] = [tile_index_of(value) if isinstance(value, bytes) else b"" for value in values]
        return _Made(sums, packed, size_bytes)

    table = np.empty((facts.num_samples, len(schema)), "<u4")
    packed: dict[str, list[bytes]] = {name: [] for name in files}
    done = size_bytes = 0
    for made in map_ahead(make, index_chunks(facts.num_samples, _CHUNK)):
        table[done : done + len(made.sums)] = made.sums
        for name, some in made.packed.items():
            packed[name] += some
        done, size_bytes = done + len(made.sums), size_bytes + made.size_bytes
        if progress is not None:
            progress(done, facts.num_samples, size_bytes)
    pictures = [name for name, some in packed.items() if any(some)]
    about = {"format": _FORMAT, "columns": list(schema), "fields": {name: name for name in schema}}
    sections: dict[str, Iterable[Buffer]] = {
        COLUMNS: json_section(about | {"facts": {"pictures": pictures}}),
        SCHEMA: json_section([[name, to_spec(field)] for name, field in schema.items()]),
        CHECKSUMS: checksums_section(len(schema), [table.reshape(-1).view(np.uint8)]),
    }
    if pictures:
        rows = [index for row in zip(*(packed[name] for name in pictures), strict=True) for index in row]
        sizes = np.fromiter(map(len, rows), np.uint32, len(rows))
        sections[TILE_INDEX] = tile_index_section(len(pictures), sizes, rows)
    with new_side(facts.path) as write:
        write_annex(
            write,
            sections,
            num_samples=facts.num_samples,
            dataset_size=lambda _: facts.size_bytes,
            dataset_fingerprint=lambda _: facts.fingerprint,
        )
    return target


# The form that checksums are of


def value_sums(field: Field, stored: Stored) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint64]]:
    """CRC-32C of values in their one form, and the size of that; see ``ColumnDataset`` for what ``stored`` is.

    An Int is an int64 and a Float a float64, arrays are in the order of C, all of them little-endian; bytes, files of
    pictures and texts (UTF-8) are as they are. Lists, maps and whatever else a library gives are packed as
    ``_pack_value`` does it.

    Example:
        >>> sums, sizes = value_sums(Int(), np.array([7], np.int16))
        >>> int(sums[0]) == _native.crc32c((7).to_bytes(8, "little")), sizes.tolist()
        (True, [8])
    """
    if isinstance(field, Int | Float):
        stored = np.asarray(stored, np.int64 if isinstance(field, Int) else np.float64)
    if not isinstance(stored, np.ndarray):
        packed = [_value_bytes(value) for value in stored]
        sums = np.fromiter(map(_native.crc32c, packed), np.uint32, len(packed))
        return sums, np.fromiter(map(len, packed), np.uint64, len(packed))
    items = np.ascontiguousarray(stored.astype(stored.dtype.newbyteorder("<"), copy=False))
    sizes = np.full(len(items), items.nbytes // max(1, len(items)), np.uint64)
    offsets = np.arange(len(items), dtype=np.uint64) * (sizes[0] if len(items) else np.uint64(0))
    return _native.crc32c_spans(items.reshape(-1).view(np.uint8), offsets, sizes), sizes


def _value_bytes(value: Any) -> bytes:
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass")
    out = bytearray()
    _pack_value(value, out)
    return bytes(out)


def _pack_value(value: Any, out: bytearray) -> None:
    """Append a value: a letter that says what it is, how much follows where that differs, and then that.

    n, t and f are None, True and False; i and o a whole number and anything else as text, s a text, b bytes; d a
    float64, little-endian; l a list and m a map, with what is in them. Sizes and counts are decimal with a colon.
    """
    if value is None or isinstance(value, bool | np.bool_):
        out += b"n" if value is None else b"t" if value else b"f"
    elif isinstance(value, float | np.floating):
        out += b"d" + struct.pack("<d", value)
    elif isinstance(value, str):
        _pack_sized(b"s", value.encode("utf-8", "surrogatepass"), out)
    elif isinstance(value, bytes | bytearray | memoryview):
        _pack_sized(b"b", bytes(value), out)
    elif isinstance(value, Mapping):
        out += b"m%d:" % len(value)
        for key, item in value.items():
            _pack_value(key, out)
            _pack_value(item, out)
    elif isinstance(value, list | tuple | np.ndarray):
        items = value.tolist() if isinstance(value, np.ndarray) else value
        if not isinstance(items, list | tuple):  # an array without an axis
            items = [items]
        out += b"l%d:" % len(items)
        for item in items:
            _pack_value(item, out)
    else:
        _pack_sized(b"i" if isinstance(value, int | np.integer) else b"o", str(value).encode(), out)


def _pack_sized(letter: bytes, data: bytes, out: bytearray) -> None:
    out += letter + b"%d:" % len(data) + data


def wrong_sums(found: npt.NDArray[np.uint32], expected: npt.NDArray[np.uint32]) -> dict[int, str]:
    """What is wrong with values that do not have their checksum, by position."""
    return {
        i: f"{WRONG_VALUE}: {expected[i]:#010x} expected, found {found[i]:#010x}"
        for i in np.flatnonzero(found != expected).tolist()
    }


def refuse_options(path: PathLike, options: Mapping[str, object]) -> None:
    """Raise ValueError for options of ``headrace.index`` that such an annex has no place for."""
    wrong = [name for name in ("embed", "names", "class_names", "metadata") if options.get(name) not in (None, False)]
    if wrong:
        raise ValueError(
            f"{path}: {', '.join(wrong)} is for .beton files and those that the samples are searched in; this format "
            "gets checksums and tile indices alone"
        )
