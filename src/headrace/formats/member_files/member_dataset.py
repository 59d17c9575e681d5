"""Files in a tar or zip as a dataset."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from headrace.errors import FormatError
from headrace.fields import Bytes, Image, Int, Json, Text
from headrace.formats.decodes import Coded, override_schema
from headrace.formats.member_files.endings import array_field, field_of_ending
from headrace.formats.members import labels_of
from headrace.formats.spans import SpanDataset
from headrace.formats.spans.span_file import BadSpanError
from headrace.types import IndexArray

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from headrace.errors import PathLike
    from headrace.formats.spans import IndexedFile
    from headrace.types import Field

__all__ = ["MemberDataset", "ReadFiles", "open_fitting", "read_spans"]

ReadFiles: TypeAlias = Callable[[IndexArray, str], list[bytes]]

_LABEL = "label"
_LOOKED_AT = 16
_PLAIN: dict[str, type[Any]] = {"image": Image, "text": Text, "json": Json}


def open_fitting(open_indexed: Callable[..., IndexedFile], path: PathLike, options: Mapping[str, Any]) -> IndexedFile:
    """Open a file so that its samples are those that the options of a dataset ask for.

    An annex has the samples that are found without options; with others it is not used, and none is kept.
    """
    group, decode = options["group"], options["decode"]
    as_bytes = decode == "bytes" and group is not True
    about = {name: options[name] for name in ("cold", "follow_links", "max_unpacked_bytes")}
    about |= {"group": group, "as_bytes": as_bytes}
    keep = options["keep_index"] and group is None and not as_bytes
    indexed = open_indexed(path, annex=options["annex"], keep_index=keep, **about)
    facts = indexed.index.facts
    is_fitting = facts.get("bytes") is True if as_bytes else group is None or facts.get("group") is group
    return indexed if is_fitting else open_indexed(path, annex=False, **about)


class MemberDataset(SpanDataset):
    """Samples whose values are files, of a subclass that knows how they are found.

    Args:
        indexed: the file and where its samples are.
        options: of the subclass, see ``SpanDataset``; ``fields``, ``decode`` and ``allow_pickle`` are used here.
        read: the files of a column, of some samples.
    """

    def __init__(self, indexed: IndexedFile, options: Mapping[str, Any], read: ReadFiles) -> None:
        known, facts = indexed.description, indexed.index.facts
        self._labels: npt.NDArray[np.int64] | None = None
        schema = _described(indexed) if known is not None else _inferred(indexed, read)
        classes: Mapping[str, Sequence[str]] = known.class_names if known is not None else {}
        if facts.get("group") is False and not facts.get("bytes"):
            found, self._labels = labels_of(list(indexed.index.names or ()))
            if self._labels is not None:
                schema, classes = {**schema, _LABEL: Int()}, {_LABEL: found, **classes}
        decode = options["decode"]
        schema = override_schema(
            indexed.file.path,
            schema,
            fields=options["fields"],
            decode=None if decode == "bytes" and facts.get("bytes") else decode,
            allow_pickle=options["allow_pickle"],
        )
        super().__init__(indexed, schema=schema, options=options, columns=indexed.columns, class_names=classes)
        self._refuse_unknown()

    def _refuse_unknown(self) -> None:
        without = set(self._schema) - set(self._columns) - ({_LABEL} if self._labels is not None else set())
        if without:
            raise FormatError(
                self.path,
                problem=f"the annex names the field {min(without)!r}, and no file belongs to it",
                fix=f"Make a new one with: headrace index --fresh {self.path}",
            )

    def _stored(self, indices: IndexArray, field: str) -> Sequence[Any] | npt.NDArray[Any]:
        if field == _LABEL and self._labels is not None and field not in self._columns:
            return self._labels[indices]
        return super()._stored(indices, field)


def _inferred(indexed: IndexedFile, read: ReadFiles) -> dict[str, Field]:
    """Fields by the endings of the files, and by the first of them."""
    index = indexed.index
    ends = np.r_[np.arange(min(len(index), _LOOKED_AT)), np.arange(max(len(index) - 1, 0), len(index))]
    indices = np.unique(ends).astype(np.int64)

    def field_of(column: str) -> Field:
        first = partial(_first, indexed.file.path, read, indices, column)
        if index.facts.get("group") is not False:
            return field_of_ending(column, first)
        return array_field(first()) if column == "array" else _PLAIN.get(column, Bytes)()

    return {column: field_of(column) for column in index.columns}


def _first(path: str, read: ReadFiles, indices: IndexArray, column: str) -> list[bytes]:
    try:
        return read(indices, column)
    except BadSpanError as error:
        raise FormatError(path, problem=f"a file in it cannot be read: {error.problem}") from None


def _described(indexed: IndexedFile) -> dict[str, Field]:
    assert indexed.description is not None
    schema = dict(indexed.description.fields)
    coded = indexed.index.facts.get("coded")
    for name, codec in coded.items() if isinstance(coded, dict) else ():
        if name in schema and codec in ("npy", "msgpack"):
            schema[name] = Coded(codec)
    return schema


def read_spans(indexed: IndexedFile, indices: IndexArray, column: str) -> list[bytes]:
    """Files as they are stored; BadSpanError for one that cannot be read."""
    at = indexed.index.columns.index(column)
    offsets, sizes = (
        np.ascontiguousarray(table[indices, at]) for table in (indexed.index.offsets, indexed.index.sizes)
    )
    return indexed.file.read(offsets, sizes)
