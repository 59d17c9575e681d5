"""What is in an HDF5 file: asked of the HDF5 library once, checked, and never asked again.

The library reads the structure alone. Links out of the file are not followed, datasets whose data are in other files
or behind filters that would need a plug-in are not read. Numbers that it gives are checked against the mapped file.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace.errors import FormatError
from headrace.fields import problem_with_name
from headrace.formats.hdf5.chunk_cache import ChunkCache
from headrace.formats.hdf5.column_source import ColumnSource, LeftOutError
from headrace.formats.hdf5.library import LibraryFile, explained, open_by_library
from headrace.progress import format_count
from headrace.registry import require

if TYPE_CHECKING:
    from headrace.formats.hdf5.column import Column
    from headrace.formats.spans import SpanFile

__all__ = ["ATTRIBUTE", "DESCRIPTION", "KEYS", "Structure", "read_structure"]

KEYS, DESCRIPTION, ATTRIBUTE = "__key__", "__headrace__", "headrace"
_MAX_OBJECTS = 100_000
_MAX_DEPTH = 64


@dataclass(slots=True)
class Structure:
    """The columns of a file by name, in its order; what is no column, and why; what a writer said about it."""

    columns: dict[str, Column] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    keys: Column | None = None
    description: str | bytes | None = None


def read_structure(file: SpanFile, kept_bytes: int) -> tuple[Structure, LibraryFile]:
    """Describe all of a file; FormatError when the library cannot read it."""
    path = file.path
    library = LibraryFile(path, file.mapped)
    opened = open_by_library(path, file.mapped)
    try:
        with explained(path):
            walk = _Walk(opened, file, library, ChunkCache(kept_bytes))
            walk.read_group(opened["/"].id, "", 0)
            walk.read_description(opened)
            return walk.found, library
    finally:
        with contextlib.suppress(Exception):  # a damaged file may not even be closed
            opened.close()


class _Walk:
    """One walk over all groups of an open file."""

    def __init__(self, opened: Any, file: SpanFile, library: LibraryFile, cache: ChunkCache) -> None:
        self._h5py = require("h5py", "an HDF5 file")
        self.found = Structure()
        self._path, self._size_bytes = file.path, file.size_bytes
        plist = opened.id.get_create_plist()
        is_usual = plist.get_sizes() == (8, 8) and plist.get_userblock() == 0
        self._columns = ColumnSource(file.path, file, library, cache, is_usual=is_usual)
        self._seen: set[int] = set()
        self._count = 0

    def read_group(self, group: Any, prefix: str, depth: int) -> None:
        address = self._h5py.h5o.get_info(group).addr
        if address in self._seen or depth > _MAX_DEPTH:
            self.found.left_out[prefix.rstrip("/")] = "the group is reached twice, or lies too deep"
            return
        self._seen.add(address)
        for stored in self._names(group):
            self._count += 1
            if self._count > _MAX_OBJECTS:
                problem = f"it has more than {format_count(_MAX_OBJECTS, 'dataset')} and groups"
                raise FormatError(self._path, problem=problem, fix="Take those that you need into another file.")
            name = prefix + stored.decode("utf-8", "surrogateescape")
            try:
                self._read_link(group, stored, name, depth)
            except LeftOutError as reason:
                self.found.left_out[name] = str(reason)

    def _names(self, group: Any) -> list[bytes]:
        """In the order in which they were made, where the file knows it, or else sorted."""
        h5 = self._h5py.h5
        is_tracked = group.get_create_plist().get_link_creation_order() & self._h5py.h5p.CRT_ORDER_TRACKED
        names: list[bytes] = []

        def take(name: bytes) -> bool | None:
            names.append(name)
            return True if len(names) > _MAX_OBJECTS else None

        group.links.iterate(take, idx_type=h5.INDEX_CRT_ORDER if is_tracked else h5.INDEX_NAME)
        return names

    def _read_link(self, group: Any, stored: bytes, name: str, depth: int) -> None:
        h5l = self._h5py.h5l
        kind = group.links.get_info(stored).type
        if kind != h5l.TYPE_HARD:
            raise LeftOutError(
                {h5l.TYPE_SOFT: "a soft link", h5l.TYPE_EXTERNAL: "a link to another file"}.get(
                    kind, "a link of an unknown kind"
                )
                + ", which is not followed"
            )
        if problem := problem_with_name(name):
            raise LeftOutError(f"no field can be called that: {problem}")
        opened = self._h5py.h5o.open(group, stored)
        if isinstance(opened, self._h5py.h5g.GroupID):
            self.read_group(opened, f"{name}/", depth + 1)
        elif not isinstance(opened, self._h5py.h5d.DatasetID):
            raise LeftOutError("a type, and no data")
        elif name == KEYS:
            self.found.keys = self._columns.column(opened, name)
        elif name != DESCRIPTION:
            self.found.columns[name] = self._columns.column(opened, name)

    def read_description(self, opened: Any) -> None:
        """What headrace has written about the fields: a text of fixed length.

        A text of any length is not read: the library hangs where its heap is damaged.
        """
        if self._h5py.h5a.exists(opened.id, ATTRIBUTE.encode()):
            stored = self._h5py.h5a.open(opened.id, ATTRIBUTE.encode())
        elif DESCRIPTION in opened and opened.get(DESCRIPTION, getlink=True).__class__ is self._h5py.HardLink:
            stored = self._h5py.h5d.open(opened.id, DESCRIPTION.encode())
            if stored.get_create_plist().get_nfilters():
                return
        else:
            return
        kind = stored.get_type()
        is_text = isinstance(kind, self._h5py.h5t.TypeStringID) and not kind.is_variable_str()
        if not is_text or stored.get_space().get_simple_extent_dims() != () or kind.get_size() > self._size_bytes:
            self.found.left_out[ATTRIBUTE] = "it should describe the fields, and is no text of fixed length"
            return
        text = np.empty((), np.dtype(f"S{kind.get_size()}"))
        if isinstance(stored, self._h5py.h5a.AttrID):
            stored.read(text, mtype=kind)
        else:
            space = self._h5py.h5s.create(self._h5py.h5s.SCALAR)
            stored.read(space, space, text, mtype=kind)
        self.found.description = text.item()
