"""An LMDB database as a dataset: one sample for each key, in the order of the keys."""

from __future__ import annotations

import logging
import os
import re
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace.codecs import jpeg
from headrace.errors import FormatError
from headrace.fields import Float, Int
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
from headrace.formats.spans import IndexedFile, SampleIndex, SpanDataset, index_spans
from headrace.formats.spans.span_file import BadSpanError
from headrace.progress import format_count
from headrace.storage import note_left_out

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.errors import PathLike
    from headrace.formats.decodes import Decode
    from headrace.formats.spans import SpanFile
    from headrace.types import Field, Progress

__all__ = ["DATA_FILE", "LmdbDataset", "data_file", "index_lmdb", "is_reserved", "open_lmdb"]

DATA_FILE = "data.mdb"
_log = logging.getLogger(__name__)
_RESERVED = re.compile(rb"__.*__", re.DOTALL)
_LOOKED_AT = 8
_HEAD_BYTES = np.uint64(16)
_COLUMN = "value"
_SHOWN = 10
_PICTURES = (b"\x89PNG\r\n\x1a\n", b"GIF87a", b"GIF89a", b"II*\0", b"MM\0*")


class LmdbDataset(SpanDataset):
    """Samples of an LMDB file, or of a folder with a ``data.mdb``. The file is mapped and read without the library.

    Args:
        path: of the file or folder.
        decode: what the values are, see ``DECODES``. By default pictures, if the first values all are, or else bytes.
            The field is called ``image`` for pictures and ``data`` for everything else.
        fields: a field by name that replaces what was found.
        database: name of the database, for files with several.
        checksums: compare values with the checksums of an annex, where there is one.
        annex: False: do not look for an annex. Only the database without a name has one.
        cold: True reads past the page cache, False always from the mapped file; by default as it fits.
        allow_pickle: needed for ``decode="pickle"``, which runs code that the file contains.
        keep_index: for other formats' sake; an LMDB is an index of itself, and none is written by opening it.
        follow_links: also read an annex that is a symbolic link.

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
        checksums: bool = True,
        annex: bool = True,
        cold: bool | None = None,
        allow_pickle: bool = False,
        keep_index: bool = False,
        follow_links: bool = False,
    ) -> None:
        self._given = os.fspath(path)
        options = {
            "decode": decode,
            "fields": None if fields is None else dict(fields),
            "database": database,
            "checksums": checksums,
            "annex": annex,
            "cold": cold,
            "allow_pickle": allow_pickle,
            "follow_links": follow_links,
        }
        indexed = IndexedFile(
            data_file(self._given),
            format_name="lmdb",
            scan=partial(_scan, database=database),
            keep_index=False,
            annex=annex and database is None,
            cold=cold,
            follow_links=follow_links,
        )
        self.left_out = [str(line) for line in indexed.index.facts.get("left_out", ())]
        name, schema = self._choose_field(indexed, decode, fields, allow_pickle)
        known = indexed.description
        class_names = known.class_names if known is not None and set(known.class_names) <= set(schema) else None
        super().__init__(indexed, schema=schema, options=options, columns={name: _COLUMN}, class_names=class_names)

    def _choose_field(
        self,
        indexed: IndexedFile,
        decode: Decode | None,
        fields: Mapping[str, Field] | None,
        allow_pickle: bool,
    ) -> tuple[str, dict[str, Field]]:
        if decode is None and _are_pictures(indexed):
            decode = "image"
        name, field = field_for(decode, allow_pickle=allow_pickle)
        schema = override_schema(self._given, {name: field}, fields=fields)
        if isinstance(schema[name], Int | Float):
            raise ValueError(f"fields[{name!r}] is a number, and the values of an LMDB are bytes; use Json() or Text()")
        return name, schema

    @property
    def path(self) -> str:
        """Where it was opened."""
        return self._given


def data_file(path: str) -> str:
    """The file of an LMDB that may be a folder."""
    return os.path.join(path, DATA_FILE) if os.path.isdir(path) else path


def is_reserved(key: bytes) -> bool:
    """Keys such as ``__len__`` and ``__keys__``, under which some programs keep (pickled) notes for themselves."""
    return _RESERVED.fullmatch(key) is not None


index_lmdb = partial(index_spans, LmdbDataset)
"""Gives an LMDB an annex, beside its file; see ``headrace.index``."""


def open_lmdb(path: PathLike, **options: Any) -> LmdbDataset:
    """Open an LMDB; the log says what was left out."""
    dataset = LmdbDataset(path, **options)
    if dataset.left_out:
        _log.warning("%s: %s", dataset.path, note_left_out(dataset.left_out))
    return dataset


def _scan(file: SpanFile, progress: Progress | None, *, database: str | None) -> SampleIndex:
    """Walk the tree: what IndexedFile asks for where there is no annex."""
    environment = read_environment(file.path, file.mapped)
    record = _choose(environment, database)
    tree = read_tree(environment, record)
    file.check()
    is_sample = np.array([not is_reserved(key) for key in tree.keys], bool)
    return SampleIndex(
        columns=(_COLUMN,),
        offsets=tree.places.offsets[is_sample].reshape(-1, 1),
        sizes=tree.places.sizes[is_sample].reshape(-1, 1),
        names=[_name(key, record.flags) for key in tree.keys if not is_reserved(key)],
        facts={"left_out": [f"{_name(key, 0)}: it is no sample" for key in tree.keys if is_reserved(key)]},
    )


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
        problem = f"the record of a database has {format_count(size, 'byte')}, expected 48"
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


def _are_pictures(indexed: IndexedFile) -> bool:
    offsets, sizes = indexed.index.offsets[:_LOOKED_AT, 0], indexed.index.sizes[:_LOOKED_AT, 0]
    try:
        heads = indexed.file.read(np.ascontiguousarray(offsets), np.minimum(sizes, _HEAD_BYTES))
    except BadSpanError:  # an annex that lies; whoever reads the sample is told
        return False
    return bool(heads) and all(map(_is_picture, heads))


def _is_picture(head: bytes) -> bool:
    is_webp = head[:4] == b"RIFF" and head[8:12] == b"WEBP"
    return is_webp or head.startswith(_PICTURES) or (len(head) > 3 and jpeg.is_jpeg(head))
