"""A .npy or .npz as a dataset: arrays by name, the first axis counts the samples."""

from __future__ import annotations

import logging
import os
from collections import Counter
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace._native import crc32c
from headrace.errors import ClosedError, FormatError
from headrace.fields import Image, Int, problem_with_name
from headrace.formats.annexed_dataset import AnnexedDataset, index_columns
from headrace.formats.decodes import Decode, override_schema
from headrace.formats.description import Description
from headrace.formats.npy.columns import Column, NumberColumn, RaggedColumn, SavedArray, column_of, pictures_of
from headrace.formats.npy.contents import Content, PackedContent, PlainContent, check_unpacked_size
from headrace.formats.npy.pictures import image_spans_of
from headrace.formats.npy.zip_directory import read_directory
from headrace.formats.report import MAX_PROBLEMS, Found
from headrace.formats.tile_index import SideFacts
from headrace.progress import format_count
from headrace.storage import absolute, join_announcements, open_stored
from headrace.types import Problem

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    from headrace.errors import PathLike
    from headrace.storage import StoredFile
    from headrace.types import (
        Announcement,
        Field,
        ImageSpans,
        IndexArray,
        Progress,
        Ragged,
        Report,
        Source,
        StoredSpans,
        TakeArray,
    )

__all__ = ["DESCRIPTION", "KEYS", "OFFSETS", "VALUES", "NpyDataset", "index_npz"]

_log = logging.getLogger("headrace")
DESCRIPTION, KEYS, VALUES, OFFSETS = "__headrace__", "__key__", ".values", ".offsets"
"""Arrays of a .npz that are no fields, and what the two arrays of a field of any length end in."""
_MOST_UNPACKED, _FREE_UNPACKED = 4 << 30, 1 << 30
_MOST_TIMES = 200  # more is a bomb, or somebody knows better and says so
_FINGERPRINT_BYTES = 1 << 16
_PLACES, _PLACE_BYTES = 16, 1 << 12
_FIX = "Write the dataset again."


class NpyDataset(AnnexedDataset):
    """The array of a .npy as the field ``data``, or the arrays of a .npz as a field each.

    Items are read from the mapped file, whatever their byte order and the order of their axes. Compressed members are
    unpacked into memory when they are needed first.

    Args:
        path: the file; what it is is told by its content.
        fields: fields by name that replace those that were found: ``{"image": Image()}`` makes pictures of an array
            of uint8, samples x height x width x 3. The array of a .npy has no name, and takes the one that is given.
        decode: what bytes are, of all Bytes fields or by name.
        allow_pickle: also read arrays of Python objects. Unpickling runs code that the file contains: whoever wrote
            the file can do anything that you can. Only for files that you, or people you trust, have written.
        max_unpacked_bytes: of all compressed members together; a file that wants more is refused. By default 1 GiB, or
            200 times the file where that is more, and 4 GiB at most.
        follow_links: also use an annex beside the file that is a symbolic link.

    Attributes:
        left_out: a line for each array that is no field, with the reason.

    Example:
        >>> import os, tempfile, headrace
        >>> path = os.path.join(tempfile.mkdtemp(), "x.npz")
        >>> np.savez(path, position=np.eye(3), label=np.arange(3))
        >>> headrace.open(path)[2]
        Sample(position=<float64 3>, label=2)
    """

    def __init__(
        self,
        path: PathLike,
        *,
        fields: Mapping[str, Field] | None = None,
        decode: Decode | Mapping[str, Decode] | None = None,
        allow_pickle: bool = False,
        max_unpacked_bytes: int | None = None,
        follow_links: bool = False,
    ) -> None:
        name = os.fspath(path)
        self._absolute = absolute(name)
        self._options: dict[str, Any] = {"fields": fields, "decode": decode, "allow_pickle": allow_pickle}
        self._options |= {"max_unpacked_bytes": max_unpacked_bytes, "follow_links": follow_links}
        self._file = open_stored(name)
        self.left_out: list[str] = []
        most_bytes = _limit_of(self._file.size_bytes) if max_unpacked_bytes is None else max_unpacked_bytes
        only = next(iter(fields), "data") if fields is not None and len(fields) == 1 else "data"
        self._arrays, self._others = _look_into(self._file, only, most_bytes, self.left_out)
        about, keys = _read_description(name, self._arrays), None
        if about is None:
            columns = _columns(self._arrays, self.left_out, allow_pickle)
        else:
            columns = _described_columns(name, about, self._arrays)
            keys = _read_keys(name, self._arrays)
        if not columns:
            left_out = f" ({'; '.join(self.left_out)})" if self.left_out else ""
            raise FormatError(name, problem=f"no array in it can be a field{left_out}", fix="Save arrays of samples.")
        self._columns = columns
        length = len(next(iter(columns.values())))
        schema = {key: column.field for key, column in columns.items()} if about is None else about.fields
        _check_lengths(name, columns, length, keys)
        found = override_schema(name, schema, fields=fields, decode=decode, allow_pickle=allow_pickle)
        _check_fit(name, found, columns)
        super().__init__(name, length=length, schema=found, keys=keys, class_names=about.class_names if about else None)
        self.metadata: Any = about.metadata if about else None
        self.holds_picture_files = not any(
            pictures_of(columns[key]) for key, kind in found.items() if isinstance(kind, Image)
        )
        if self.left_out:
            _log.warning("%s: no fields are %s", name, "; ".join(self.left_out))

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopen, (self._absolute, self._options), self._state

    def close(self) -> None:
        """Let go of the file. Views that were handed out stay valid."""
        self._columns, self._arrays, self._others = {}, {}, {}
        self._file.close()

    def _column(self, field: str) -> Column:
        self._check_field(field)
        column = self._columns.get(field)
        if column is None:
            raise ClosedError(f"{self.path}: already closed")
        return column

    @property
    def reading(self) -> str:
        """How the bytes are read, in words."""
        is_packed = any(isinstance(one.content, PackedContent) for one in self._arrays.values())
        place = "the mapped file" if self.is_local else "the store"
        return f"from memory, unpacked once, and from {place}" if is_packed else f"from {place}"

    @property
    def is_local(self) -> bool:
        """The file lies on this machine."""
        return self._file.is_local

    def announce(self, indices: IndexArray, fields: Sequence[str]) -> Announcement | None:
        """Begin to bring what samples need, ahead of their use."""
        if self.is_local:
            return None
        return join_announcements(self._column(field).announce(indices) for field in fields)

    def stored_spans(self, indices: IndexArray, fields: Sequence[str]) -> list[StoredSpans]:
        """What ``announce`` of these samples would bring."""
        if self.is_local:
            return []
        return [spans for field in fields for spans in self._column(field).stored_spans(indices)]

    @cached_property
    def fingerprint(self) -> int:
        """32 bits that change when the dataset is another one; a loader's state is tied to it."""
        value = crc32c(repr((list(self.schema.items()), len(self))).encode(), self._content_fingerprint)
        return value if self._is_zip else self._places_sum(value)  # a zip has the checksums of all members

    def _places_sum(self, value: int) -> int:
        """Of bytes here and there: the same on every machine and in every store, as the time of a file is not."""
        size = min(_PLACE_BYTES, self._file.size_bytes)
        places = np.linspace(0, self._file.size_bytes - size, _PLACES).astype(np.uint64)
        base, starts = self._file.region(places, np.full(_PLACES, size, np.uint64))
        for start in starts.tolist():
            value = crc32c(base[start : start + size], value)
        self._file.check()
        return value

    @cached_property
    def _content_fingerprint(self) -> int:
        file, size = self._file, self._file.size_bytes
        value = crc32c(file.hold(0, min(size, _FINGERPRINT_BYTES)), crc32c(repr(size).encode()))
        return crc32c(file.hold(max(0, size - _FINGERPRINT_BYTES), size), value)

    @property
    def _is_zip(self) -> bool:
        return _is_zip(self._file)

    def check_file(self) -> None:
        """Raise FormatError if the file was cut short while it was in use."""
        for saved in self._arrays.values():
            saved.content.check()

    def _stored(self, indices: IndexArray, field: str) -> Sequence[Any] | npt.NDArray[Any]:
        return self._column(field).stored(indices, self.schema[field])

    def read_arrays(
        self, indices: IndexArray, field: str, take: TakeArray, source: Source | None = None
    ) -> npt.NDArray[Any]:
        """Values of an array field, copied into memory that the caller gives."""
        column = self._column(field)
        if isinstance(column, NumberColumn) and not isinstance(self.schema[field], Int) and not self._checks:
            return column.read(indices, self.schema[field], take)
        return super().read_arrays(indices, field, take, source)

    def read_ragged(self, indices: IndexArray, field: str, source: Source | None = None) -> Ragged:
        """Stored bytes of one field, one value after the other, by one native call where values have any length."""
        column = self._column(field)
        if isinstance(column, RaggedColumn) and not self._checks:
            return column.ragged(indices)
        return super().read_ragged(indices, field)

    def image_spans(self, indices: IndexArray, field: str, source: Source | None = None) -> ImageSpans:
        """The undecoded bytes of pictures, with the tile indices of JPEGs where there are some."""
        spans = image_spans_of(self._column(field), self.schema[field], indices)
        return self._with_annex(spans, indices, field)

    @property
    def file_fields(self) -> list[str]:
        """Fields with values of any length, pictures first."""
        found = [name for name, column in self._columns.items() if isinstance(column, RaggedColumn)]
        return sorted(found, key=lambda name: not isinstance(self.schema[name], Image))

    @property
    def side_facts(self) -> SideFacts:
        """What an annex beside the file is bound to."""
        facts = (len(self), self._file.size_bytes, self._content_fingerprint)
        return SideFacts(self.path, *facts, bool(self._options["follow_links"]))

    def view(self, field: str) -> npt.NDArray[Any]:
        """All values of an array field as they lie in the file: nothing is copied, and nothing is checked."""
        column = self._column(field)
        if not isinstance(column, NumberColumn):
            raise ValueError(f"field {field!r} is no array of numbers; read it with read_values")
        if not self.is_local:
            raise ValueError(f"{self.path} lies in a store, and only some of it is here; read it with read_values")
        array = column.saved.array()
        array.flags.writeable = False
        return array

    def verify(self, *, decode: bool = False, workers: int | None = None, progress: Progress | None = None) -> Report:
        """Compare the checksum of every member of a .npz, and read every value; with ``decode`` also decode it."""
        checked, problems = 0, []
        for name, content in [*((name, one.content) for name, one in self._arrays.items()), *self._others.items()]:
            try:
                checked += content.verify()
            except FormatError as error:
                checked += 1
                problems.append(Problem(sample=None, field=name, message=f"{name}: {error}"))
        if problems and self._annex_found[0] is None:  # what the values are means nothing then
            found = Found(checksums=checked, size_bytes=self._file.size_bytes, problems=problems)
            return found.report(self.path)
        report = super().verify(decode=decode, workers=workers, progress=progress)
        return replace(
            report,
            checksums_checked=checked + report.checksums_checked,
            size_bytes=self._file.size_bytes,
            problems=(*problems, *report.problems)[:MAX_PROBLEMS],
        )


def _reopen(path: str, options: dict[str, Any]) -> NpyDataset:
    return NpyDataset(path, **options)


index_npz = partial(index_columns, NpyDataset)
"""Gives a .npy or .npz an annex, beside it; see ``headrace.index``."""


def _limit_of(size_bytes: int) -> int:
    """How much a file of this size may unpack to."""
    return min(_MOST_UNPACKED, max(_FREE_UNPACKED, _MOST_TIMES * size_bytes))


def _is_zip(file: StoredFile) -> bool:
    return file.hold(0, min(file.size_bytes, 2)).tobytes() == b"PK"


def _look_into(
    file: StoredFile, only: str, most_bytes: int, left_out: list[str]
) -> tuple[dict[str, SavedArray], dict[str, Content]]:
    """The arrays of a file by name, and the contents of members that are none; ``only`` names that of a .npy."""
    path = file.path
    if not _is_zip(file):
        return {only: SavedArray.look_at(path, only, PlainContent(file, 0, file.size_bytes))}, {}
    members = read_directory(file)
    check_unpacked_size(path, members, most_bytes)
    arrays: dict[str, SavedArray] = {}
    others: dict[str, Content] = {}
    for member in members:
        end = member.offset + member.packed_bytes
        content: Content = (
            PackedContent(file, member) if member.is_packed else PlainContent(file, member.offset, end, member.crc32)
        )
        name = member.name.removesuffix(".npy")
        if name == member.name:
            others[name] = content
            left_out.append(f"{name}: it is no .npy")
        else:
            arrays[name] = SavedArray.look_at(path, name, content)
    return arrays, others


def _columns(arrays: dict[str, SavedArray], left_out: list[str], allow_pickle: bool) -> dict[str, Column]:
    """Arrays of the length that most have are the fields; of two such lengths the longer."""
    possible = {}
    for name, saved in arrays.items():
        problem = problem_with_name(name) or _shape_problem(saved.header.shape)
        if problem is None:
            possible[name] = column_of(saved, allow_pickle=allow_pickle)
        else:
            left_out.append(f"{name!r}: {problem}")
    counts = Counter(len(column) for column in possible.values())
    length = max(counts, key=lambda one: (counts[one], one), default=0)
    for name, column in possible.items():
        if len(column) != length:
            left_out.append(f"{name!r}: it has {format_count(len(column), 'row')}, the others have {length}")
    return {name: column for name, column in possible.items() if len(column) == length}


def _shape_problem(shape: tuple[int, ...]) -> str | None:
    if not shape:
        return "it is one value, without an axis of samples"
    return f"there is nothing in a sample of shape {shape[1:]}" if 0 in shape[1:] else None


def _read_description(path: str, arrays: dict[str, SavedArray]) -> Description | None:
    saved = arrays.get(DESCRIPTION)
    return None if saved is None else Description.parse(path, _vector_bytes(path, saved))


def _vector_bytes(path: str, saved: SavedArray) -> bytes:
    if saved.header.dtype != np.uint8 or len(saved.header.shape) != 1:
        raise FormatError(path, problem=f"array {saved.name!r} is not bytes", fix=_FIX)
    return saved.items().tobytes()


def _described_columns(path: str, about: Description, arrays: dict[str, SavedArray]) -> dict[str, Column]:
    columns: dict[str, Column] = {}
    for name in about.fields:
        if name in arrays and arrays[name].header.shape and 0 not in arrays[name].header.shape[1:]:
            columns[name] = column_of(arrays[name], allow_pickle=False)
        elif name + VALUES in arrays and name + OFFSETS in arrays:
            columns[name] = RaggedColumn(name, arrays[name + VALUES], arrays[name + OFFSETS])
        else:
            raise FormatError(path, problem=f"the array of field {name!r} is missing or of no use", fix=_FIX)
    return columns


def _read_keys(path: str, arrays: dict[str, SavedArray]) -> list[str] | None:
    if KEYS + VALUES not in arrays or KEYS + OFFSETS not in arrays:
        return None
    column = RaggedColumn(KEYS, arrays[KEYS + VALUES], arrays[KEYS + OFFSETS])
    stored = column.stored(np.arange(len(column), dtype=np.int64), column.field)
    return [name.decode("utf-8", "surrogateescape") for name in stored]


def _check_lengths(path: str, columns: Mapping[str, Column], length: int, keys: list[str] | None) -> None:
    lengths = {name: len(column) for name, column in columns.items()} | ({} if keys is None else {KEYS: len(keys)})
    for name, found in lengths.items():
        if found != length:
            problem = f"field {name!r} has {format_count(found, 'value')}, {format_count(length, 'sample')} expected"
            raise FormatError(path, problem=problem, fix=_FIX)


def _check_fit(path: str, schema: Mapping[str, Field], columns: Mapping[str, Column]) -> None:
    for name, field in schema.items():
        if not columns[name].fits(field):
            header = columns[name].saved.header
            found = f"an array of {header.dtype} {header.shape}"
            raise FormatError(path, problem=f"field {name!r} is {found}, which cannot be read as {field!r}")
