"""An LMDB database as a dataset: one sample for each key, in the order of the keys."""

from __future__ import annotations

import logging
import os
import re
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from headrace._native import crc32c
from headrace.codecs import jpeg
from headrace.errors import FormatError
from headrace.fields import Float, Int
from headrace.formats.column_dataset import ColumnDataset
from headrace.formats.decodes import field_for, override_schema
from headrace.formats.lmdb.tree import (
    INTEGER_KEYS,
    SUB_DATABASE,
    Environment,
    Record,
    Tree,
    read_environment,
    read_tree,
)
from headrace.formats.mapped_values import Places, pictures_in_place, values_in_place
from headrace.formats.spans import SpanFile
from headrace.formats.tile_index import (
    SideFacts,
    refuse_annex_options,
    side_problems,
    tile_index_or_warning,
    with_problems,
    with_tile_index,
    write_tile_index,
)
from headrace.storage import note_left_out

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.annex import TileIndex
    from headrace.errors import PathLike
    from headrace.formats.decodes import Decode
    from headrace.types import Field, ImageSpans, IndexArray, Progress, Report, Source

__all__ = ["DATA_FILE", "LmdbDataset", "data_file", "index_lmdb", "is_reserved"]

DATA_FILE = "data.mdb"
_log = logging.getLogger(__name__)
_RESERVED = re.compile(rb"__.*__", re.DOTALL)
_LOOKED_AT = 8
_SHOWN = 10
_PICTURES = (b"\x89PNG\r\n\x1a\n", b"GIF87a", b"GIF89a", b"II*\0", b"MM\0*")


class LmdbDataset(ColumnDataset):
    """Samples of an LMDB file, or of a folder with a ``data.mdb``. The file is mapped and read without the library.

    Args:
        path: of the file or folder.
        decode: what the values are, see ``DECODES``. By default pictures, if the first values all are, or else bytes.
            The field is called ``image`` for pictures and ``data`` for everything else.
        fields: a field by name that replaces what was found.
        database: name of the database, for files with several.
        cold: True reads past the page cache, False always from the mapped file; by default as it fits.
        allow_pickle: needed for ``decode="pickle"``, which runs code that the file contains.
        follow_links: also use tile indices beside it that are a symbolic link.

    Attributes:
        left_out: a line for each key that is no sample, such as ``__len__``, and the reason.
    """

    def __init__(
        self,
        path: PathLike,
        *,
        decode: Decode | None = None,
        fields: Mapping[str, Field] | None = None,
        database: str | None = None,
        cold: bool | None = None,
        allow_pickle: bool = False,
        follow_links: bool = False,
    ) -> None:
        given = os.fspath(path)
        status = os.stat(data_file(given))
        self._file = SpanFile(data_file(given), cold=cold)
        mapped = self._file.mapped
        self._environment = read_environment(given, mapped)
        record = _choose(self._environment, database)
        tree = read_tree(self._environment, record)
        self._file.check()
        is_sample = np.array([not is_reserved(key) for key in tree.keys], bool)
        self.left_out = [f"{_name(key, 0)}: it is no sample" for key in tree.keys if is_reserved(key)]
        self._places = Places(tree.places.offsets[is_sample], tree.places.sizes[is_sample])
        keys = [_name(key, record.flags) for key in tree.keys if not is_reserved(key)]
        if decode is None and _are_pictures(mapped, self._places):
            decode = "image"
        name, field = field_for(decode, allow_pickle=allow_pickle)
        schema = override_schema(given, {name: field}, fields=fields)
        if isinstance(schema[name], Int | Float):
            raise ValueError(f"fields[{name!r}] is a number, and the values of an LMDB are bytes; use Json() or Text()")
        self._options: dict[str, Any] = {
            "decode": decode,
            "fields": None if fields is None else dict(fields),
            "database": database,
            "cold": cold,
            "allow_pickle": allow_pickle,
            "follow_links": follow_links,
        }
        self._status = status.st_size, status.st_mtime_ns
        super().__init__(given, length=len(keys), schema=schema, keys=keys)

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopen, (os.path.abspath(self._path), self._options)

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()

    @property
    def reading(self) -> str:
        """How values are read, in words."""
        return self._file.reading

    def check_file(self) -> None:
        """Raise FormatError if the file was cut short while it was in use."""
        self._file.check()

    @cached_property
    def fingerprint(self) -> int:
        """32 bits that change when the dataset is another one; a loader's state is tied to it."""
        return crc32c(repr((self._status, list(self._schema.items()), self._content())).encode())

    def _content(self) -> int:
        """Of what the meta page says and of the places of all values."""
        value = crc32c(repr((self._environment.transaction, self._environment.num_pages, len(self))).encode())
        return crc32c(self._places.offsets.tobytes(), crc32c(self._places.sizes.tobytes(), value))

    def _at(self, indices: IndexArray) -> Places:
        return Places(self._places.offsets[indices], self._places.sizes[indices])

    def _stored(self, indices: IndexArray, field: str) -> list[bytes]:
        return values_in_place(self._path, field, indices, self._file, self._at(indices))

    def rows(self, indices: IndexArray) -> list[dict[str, object]]:
        """Sizes of the values, nothing read."""
        (name,) = self._schema
        return [{name: f"{size}B"} for size in self._places.sizes[indices].tolist()]

    @cached_property
    def tile_index(self) -> TileIndex | None:
        """Tile indices of the JPEGs, by which crops are decoded without the rest, or None."""
        return tile_index_or_warning(self.side_facts)

    @property
    def side_facts(self) -> SideFacts:
        """What tile indices of JPEGs beside the file are bound to."""
        path, follow_links = self._path.rstrip(os.sep), self._options["follow_links"]
        return SideFacts(path, len(self), self._file.size_bytes, self._content(), follow_links)

    def _between(self, start: int, stop: int) -> list[bytes]:
        return self._stored(np.arange(start, stop, dtype=np.int64), next(iter(self._schema)))

    def index_jpegs(self, progress: Progress | None = None) -> str:
        """Write tile indices of all values that are JPEGs beside the file; gives the path of the annex."""
        return write_tile_index(self.side_facts, self._between, progress)

    def image_spans(self, indices: IndexArray, field: str, source: Source | None = None) -> ImageSpans:
        """The undecoded bytes of pictures where they lie in the file, with tile indices where there are some."""
        self._check_field(field)
        spans = pictures_in_place(self._path, field, indices, self._file, self._at(indices))
        return with_tile_index(spans, self.tile_index, indices)

    def verify(self, *, decode: bool = False, workers: int | None = None, progress: Progress | None = None) -> Report:
        """Read every value; with ``decode`` also decode it. The pages were checked when the file was opened."""
        report = super().verify(decode=decode, workers=workers, progress=progress)
        return with_problems(report, side_problems(self.side_facts, self._between)) if report.ok else report


def data_file(path: str) -> str:
    """The file of an LMDB that may be a folder."""
    return os.path.join(path, DATA_FILE) if os.path.isdir(path) else path


def is_reserved(key: bytes) -> bool:
    """Keys such as ``__len__`` and ``__keys__``, under which some programs keep (pickled) notes for themselves."""
    return _RESERVED.fullmatch(key) is not None


def index_lmdb(
    path: PathLike, *, progress: Progress | None = None, follow_links: bool = False, **options: object
) -> str:
    """Give an LMDB tile indices of its JPEGs, beside it; see ``headrace.index``."""
    refuse_annex_options(path, "lmdb", options)
    with LmdbDataset(path, follow_links=follow_links) as dataset:
        return dataset.index_jpegs(progress)


def open_lmdb(path: PathLike, **options: Any) -> LmdbDataset:
    """Open an LMDB; the log says what was left out."""
    dataset = LmdbDataset(path, **options)
    if dataset.left_out:
        _log.warning("%s: %s", dataset.path, note_left_out(dataset.left_out))
    return dataset


def _choose(environment: Environment, database: str | None) -> Record:
    """The record of the database that was asked for: the main one, unless it only names others."""
    if database is None and not environment.main.entries:
        return environment.main
    main = read_tree(environment, environment.main)
    inner = {key: i for i, key in enumerate(main.keys) if main.flags[i] & SUB_DATABASE}
    if database is None:
        if not inner:
            return environment.main
        fix = f"Choose one: database={_name(next(iter(inner)), 0)!r}."
        raise FormatError(environment.path, problem=f"it has the databases {_names(inner)}", fix=fix)
    if (key := database.encode("utf-8", "surrogateescape")) not in inner:
        has = f"its databases are {_names(inner)}" if inner else "it has one without a name; leave database out"
        raise ValueError(f"{environment.path} has no database {database!r}; {has}")
    return _inner_record(environment, main, inner[key])


def _inner_record(environment: Environment, main: Tree, position: int) -> Record:
    start, size = int(main.places.offsets[position]), int(main.places.sizes[position])
    if size != 48:
        problem = f"the record of a database has {size} bytes, expected 48"
        raise FormatError(environment.path, problem=problem, offset=start, fix="The file is damaged.")
    return Record.parse(environment.mapped[start : start + size].tobytes())


def _names(keys: Mapping[bytes, int]) -> str:
    shown = [repr(_name(key, 0)) for key in list(keys)[:_SHOWN]]
    return ", ".join(shown) + (f" and {len(keys) - _SHOWN} more" if len(keys) > _SHOWN else "")


def _name(key: bytes, flags: int) -> str:
    """A key as text: numbers in decimal, bytes that are no UTF-8 escaped."""
    if flags & INTEGER_KEYS:
        return str(int.from_bytes(key, "little"))
    return key.decode("utf-8", "backslashreplace")


def _are_pictures(mapped: npt.NDArray[np.uint8], places: Places) -> bool:
    first = list(zip(places.offsets[:_LOOKED_AT].tolist(), places.sizes[:_LOOKED_AT].tolist(), strict=True))
    return bool(first) and all(_is_picture(mapped[start : start + min(size, 16)].tobytes()) for start, size in first)


def _is_picture(head: bytes) -> bool:
    is_webp = head[:4] == b"RIFF" and head[8:12] == b"WEBP"
    return is_webp or head.startswith(_PICTURES) or (len(head) > 3 and jpeg.is_jpeg(head))


def _reopen(path: str, options: dict[str, Any]) -> LmdbDataset:
    return LmdbDataset(path, **options)
