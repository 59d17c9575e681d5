"""An HDF5 file as a dataset: every dataset of the common length is a field."""

from __future__ import annotations

import logging
import math
import os
from collections import Counter
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from headrace._native import crc32c
from headrace.errors import FormatError
from headrace.fields import Image
from headrace.formats.annexed_dataset import AnnexedDataset, index_columns
from headrace.formats.decodes import override_schema
from headrace.formats.description import Description
from headrace.formats.hdf5.structure import read_structure
from headrace.formats.mapped_values import pictures_in_place
from headrace.formats.spans import SpanFile
from headrace.formats.tile_index import SideFacts
from headrace.progress import format_count
from headrace.storage import note_left_out

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from headrace.errors import PathLike
    from headrace.formats.decodes import Decode
    from headrace.formats.hdf5.column import Column
    from headrace.formats.hdf5.structure import Structure
    from headrace.formats.report import Found
    from headrace.types import Field, ImageSpans, IndexArray, Source

__all__ = ["Hdf5Dataset", "index_hdf5", "open_hdf5"]

_log = logging.getLogger(__name__)
_CACHE_BYTES = 128 << 20


class Hdf5Dataset(AnnexedDataset):
    """Samples of an HDF5 file. Its bytes are read from the mapped file; the HDF5 library says where they are.

    Args:
        path: of the file.
        decode: what bytes of any length are, see ``DECODES``: of all such fields, or by name.
        fields: fields by name that replace those that were found.
        kept_bytes: bytes of unpacked chunks that are kept.
        cold: how values of any length are read: True past the page cache, False always from the mapped file; by
            default as it fits.
        allow_pickle: needed for ``decode="pickle"``, which runs code that the file contains.
        follow_links: also use an annex beside it that is a symbolic link.

    Attributes:
        left_out: a line for each dataset, group or link that is no field, and the reason.
        metadata: what ``metadata=`` was when headrace wrote it.
    """

    def __init__(
        self,
        path: PathLike,
        *,
        decode: Decode | Mapping[str, Decode] | None = None,
        fields: Mapping[str, Field] | None = None,
        kept_bytes: int = _CACHE_BYTES,
        cold: bool | None = None,
        allow_pickle: bool = False,
        follow_links: bool = False,
    ) -> None:
        given = os.fspath(path)
        if kept_bytes < 0:
            raise ValueError(f"kept_bytes must not be negative, got {kept_bytes}")
        self._options: dict[str, Any] = {
            "decode": decode,
            "fields": None if fields is None else dict(fields),
            "kept_bytes": kept_bytes,
            "cold": cold,
            "allow_pickle": allow_pickle,
            "follow_links": follow_links,
        }
        status = os.stat(given)
        self._status = status.st_size, status.st_mtime_ns
        self._file = SpanFile(given, cold=cold)
        structure, self._library = read_structure(self._file, kept_bytes)
        self._file.check()
        description = _description(given, structure)
        self._columns, length = _choose_columns(given, structure, description)
        self.left_out = [f"{name}: {reason}" for name, reason in structure.left_out.items()]
        self.metadata = None if description is None else description.metadata
        found = description.fields if description is not None else {n: c.field for n, c in self._columns.items()}
        schema = override_schema(given, found, fields=fields, decode=decode, allow_pickle=allow_pickle)
        for name, field in schema.items():
            if not self._columns[name].fits(field):
                column = self._columns[name]
                raise ValueError(f"{given}: {name!r} cannot be {field!r}; it holds {column.meaning} of {column.dtype}")
        super().__init__(
            given, length=length, schema=schema, class_names=None if description is None else description.class_names
        )
        self._key_column = structure.keys if structure.keys is not None and structure.keys.shape == (length,) else None
        is_raw = any(isinstance(f, Image) and self._columns[n].meaning == "arrays" for n, f in schema.items())
        self.holds_picture_files = not is_raw

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopen, (os.path.abspath(self._path), self._options), self._state

    def close(self) -> None:
        """Let go of the file."""
        self._library.close()
        self._file.close()
        self._columns, self._key_column = {}, None

    def check_file(self) -> None:
        """Raise FormatError if the file was cut short while it was in use."""
        self._file.check()

    @cached_property
    def keys(self) -> Sequence[str] | None:
        """Names of the samples, or None when they have none."""
        column = self._key_column
        if column is None or column.meaning not in ("text", "fixed"):
            return None
        stored = column.stored(np.arange(len(self), dtype=np.int64))
        return [bytes(name).decode("utf-8", "surrogateescape") for name in stored]

    @cached_property
    def fingerprint(self) -> int:
        """32 bits that change when the dataset is another one; a loader's state is tied to it."""
        return crc32c(repr((self._status, len(self), list(self._schema.items()), self._file.fingerprint)).encode())

    @property
    def reading(self) -> str:
        """How its bytes are read, in words."""
        kept = self._options["kept_bytes"]
        return f"{self._file.reading}; of unpacked chunks {format_count(kept, 'byte')} are kept"

    def _check_field(self, field: str) -> Field:
        if field not in self._schema:
            for line in self.left_out:
                if line.startswith(f"{field}: "):
                    raise KeyError(f"{self._path}: {field!r} was left out; {line.partition(': ')[2]}")
        return super()._check_field(field)

    def _column(self, field: str) -> Column:
        self._check_field(field)
        _ = self._file.mapped
        return self._columns[field]

    def _stored(self, indices: IndexArray, field: str) -> Sequence[Any] | npt.NDArray[Any]:
        stored = self._column(field).stored(indices)
        self.check_file()
        return stored

    def page_numbers(self) -> IndexArray | None:
        """Number of the chunk each sample lies in, of the field with the largest rows that has chunks, or None."""
        packed = [
            (column.dtype.itemsize * math.prod(column.shape[1:]), column.items.block_rows)
            for column in self._columns.values()
            if column.heap is None and column.items.block_rows is not None
        ]
        return np.arange(len(self), dtype=np.int64) // max(packed)[1] if packed else None

    @property
    def file_fields(self) -> list[str]:
        """Fields with bytes of any length."""
        return [name for name, column in self._columns.items() if column.meaning == "bytes"]

    @property
    def side_facts(self) -> SideFacts:
        """What an annex beside the file is bound to."""
        return SideFacts(
            self._path, len(self), self._file.size_bytes, self._file.fingerprint, self._options["follow_links"]
        )

    def image_spans(self, indices: IndexArray, field: str, source: Source | None = None) -> ImageSpans:
        """The undecoded bytes of pictures where they lie in the file, with tile indices where there are some."""
        column = self._column(field)
        places = column.places(indices) if column.meaning == "bytes" else None
        if places is None:
            spans = super().image_spans(indices, field, source)
        else:
            spans = pictures_in_place(self._path, field, indices, self._file, places)
        return self._with_annex(spans, indices, field)

    def _check(self, indices: IndexArray, decode: bool) -> Found:
        found = super()._check(indices, decode)
        found.checksums += len(indices) * sum(column.items.is_checked for column in self._columns.values())
        return found


def _description(path: str, structure: Structure) -> Description | None:
    return None if structure.description is None else Description.parse(path, structure.description)


def _choose_columns(path: str, structure: Structure, description: Description | None) -> tuple[dict[str, Column], int]:
    """The columns that are fields, and how many samples there are; the rest goes to what is left out."""
    if description is not None:
        chosen = _described(path, structure, description)
        length = next(iter(chosen.values())).shape[0] if chosen else 0
        why = "it is not among the fields that its writer has named"
    else:
        length = _common_length(column.shape[0] for column in structure.columns.values())
        chosen = {name: column for name, column in structure.columns.items() if column.shape[0] == length}
        why = f"its first axis is not {length}, as that of the fields is"
    for name in structure.columns:
        if name not in chosen:
            structure.left_out[name] = why
    if not chosen:
        left = [f"{name}: {reason}" for name, reason in structure.left_out.items()]
        problem = f"no dataset in it can be a field ({note_left_out(left)})" if left else "there is no dataset in it"
        raise FormatError(path, problem=problem)
    return chosen, length


def _described(path: str, structure: Structure, description: Description) -> dict[str, Column]:
    chosen: dict[str, Column] = {}
    for name, field in description.fields.items():
        column = structure.columns.get(name)
        if column is None:
            problem = f"the field {name!r} cannot be read ({structure.left_out.get(name, 'it is not there')})"
            raise FormatError(path, problem=problem, fix="Write the dataset again.")
        if not column.fits(field):
            problem = f"the field {name!r} should be {field!r}, and the file holds {column.meaning} of {column.dtype}"
            raise FormatError(path, problem=problem, fix="Write the dataset again.")
        chosen[name] = column
    if len({column.shape[0] for column in chosen.values()}) > 1:
        lengths = ", ".join(f"{name} {column.shape[0]}" for name, column in chosen.items())
        raise FormatError(path, problem=f"the fields have different lengths: {lengths}", fix="Write it again.")
    return chosen


def _common_length(lengths: Any) -> int:
    """The length that most datasets have; of several, the longest.

    Example:
        >>> _common_length([3, 20, 20, 7, 7])
        20
    """
    counts = Counter(lengths)
    return max(counts, key=lambda length: (counts[length], length), default=0)


def open_hdf5(path: PathLike, **options: Any) -> Hdf5Dataset:
    """Open an HDF5 file; the log says what was left out."""
    dataset = Hdf5Dataset(path, **options)
    if dataset.left_out:
        _log.warning("%s: %s", dataset.path, note_left_out(dataset.left_out))
    return dataset


index_hdf5 = partial(index_columns, Hdf5Dataset)
"""Gives an HDF5 file an annex, beside it; see ``headrace.index``."""


def _reopen(path: str, options: dict[str, Any]) -> Hdf5Dataset:
    return Hdf5Dataset(path, **options)
