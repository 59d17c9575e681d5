"""A MessagePack stream as a dataset."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from headrace import _native
from headrace.errors import CorruptSampleError, FormatError
from headrace.fields import Bytes, Float, Image, Int, Json, Text
from headrace.formats.contract import BaseDataset
from headrace.formats.decodes import Coded, override_schema
from headrace.formats.msgpack.stream import kinds_of, scan_msgpack
from headrace.formats.plain_values import plain_value
from headrace.formats.spans import IndexedFile, SpanDataset
from headrace.formats.spans.span_file import BadSpanError
from headrace.registry import require

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import numpy.typing as npt

    from headrace.errors import PathLike
    from headrace.formats.decodes import Decode
    from headrace.formats.msgpack.stream import Kinds
    from headrace.types import Field, IndexArray, Progress, Ragged, Source

__all__ = ["MsgpackDataset"]

_FIRST = 8
_HEAD_BYTES = 16
_PICTURES = (b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n", b"GIF8", b"II*\0", b"MM\0*")
_NUMBERS = frozenset({"boolean", "integer"})
_FLOATS = _NUMBERS | {"floating"}
_JSON = _FLOATS | {"nil", "big_integer", "text", "container"}


class MsgpackDataset(SpanDataset):
    """Samples of a MessagePack stream: one field for each key of its maps, or ``data`` where the values are no maps.

    Columns of bytes are pictures when the first ones are, otherwise bytes; of whole numbers or truth values ``Int``; of
    numbers ``Float``; of texts ``Text``; of timestamps ``Text`` (ISO 8601); all else that JSON can hold is ``Json``,
    lists of numbers too. Lists and maps with bytes inside are given as the package ``msgpack`` gives them.

    Args:
        path: the file.
        fields: fields by name that replace those that were found, such as ``{"box": NDArray("float64", (4,))}``.
        decode: what bytes are, see ``headrace.formats.decodes``.
        allow_pickle: needed for ``decode="pickle"``.
        checksums: compare values with the checksums of the annex, where it has some.
        annex: False: do not look for an annex, and write none.
        keep_index: keep the places of the samples of a large file in an annex beside it.
        cold: see ``SpanFile``.
        follow_links: also read an annex that is a symbolic link.
        progress: called while the samples are searched for.
    """

    def __init__(
        self,
        path: PathLike,
        *,
        fields: Mapping[str, Field] | None = None,
        decode: Decode | Mapping[str, Decode] | None = None,
        allow_pickle: bool = False,
        checksums: bool = True,
        annex: bool = True,
        keep_index: bool = True,
        cold: bool | None = None,
        follow_links: bool = False,
        progress: Progress | None = None,
    ) -> None:
        how: dict[str, Any] = {"keep_index": keep_index, "annex": annex, "cold": cold, "follow_links": follow_links}
        indexed = IndexedFile(path, format_name="msgpack", scan=scan_msgpack, progress=progress, **how)
        found = _described(indexed)
        self._kinds = kinds_of(indexed.file.path, indexed.index)
        if found is None:
            found = {name: _field_of(indexed, name, kinds) for name, kinds in self._kinds.items()}
        schema = override_schema(indexed.file.path, found, fields=fields, decode=decode, allow_pickle=allow_pickle)
        options = {"fields": fields, "decode": decode, "allow_pickle": allow_pickle, "checksums": checksums, **how}
        classes = None if indexed.description is None else indexed.description.class_names
        super().__init__(indexed, schema=schema, options=options, class_names=classes)

    def _stored(self, indices: IndexArray, field: str) -> Sequence[Any] | npt.NDArray[Any]:
        kind, kinds = self._schema[field], set(self._kinds[field])
        if isinstance(kind, Int) and kinds <= _NUMBERS:
            return self._numbers(indices, field, _native.decode_msgpack_ints)
        if isinstance(kind, Float) and kinds <= _FLOATS:
            return self._numbers(indices, field, _native.decode_msgpack_floats)
        stored = super()._stored(indices, field)
        if kinds == {"bytes"} or isinstance(kind, Bytes | Coded | Image):
            return stored
        if kinds == {"text"} and not isinstance(kind, Json):
            return stored
        return self._unpacked(indices, field, stored)

    def _numbers(self, indices: IndexArray, field: str, decode: Any) -> npt.NDArray[Any]:
        ragged = SpanDataset.read_ragged(self, indices, field)
        bounds = ragged.offsets.astype(np.uint64)
        try:
            return np.asarray(decode(ragged.values, bounds[:-1], np.diff(bounds)))
        except _native.NativeError as error:  # an annex that does not belong to the file
            self._fail(indices, field, BadSpanError(error.offset, error.detail))

    def _unpacked(self, indices: IndexArray, field: str, stored: Iterable[Any]) -> list[Any]:
        kind, is_text = self._schema[field], set(self._kinds[field]) == {"text"}
        values = []
        for i, data in zip(indices.tolist(), stored, strict=True):
            try:
                values.append(plain_value(kind, str(data, "utf-8") if is_text else _unpack(data)))
            except ValueError as error:
                raise self._corrupt(i, field, error) from error
        return values

    def _corrupt(self, index: int, field: str, error: Exception) -> CorruptSampleError:
        offset = int(self.indexed.index.offsets[index, self._columns[field]])
        problem, fix = f"the value cannot be decoded ({error})", "Restore the file, or open it with other fields=."
        return CorruptSampleError(self.path, sample=index, field=field, offset=offset, problem=problem, fix=fix)

    def read_ragged(self, indices: IndexArray, field: str, source: Source | None = None) -> Ragged:
        """Stored bytes of one field, one value after the other; of values that are no bytes or texts, as JSON."""
        self._check_field(field)
        if set(self._kinds[field]) in ({"bytes"}, {"text"}) and not isinstance(self._schema[field], Json):
            return super().read_ragged(indices, field, source)
        return BaseDataset.read_ragged(self, indices, field, source)


def _described(indexed: IndexedFile) -> dict[str, Field] | None:
    """The fields that an annex describes; they are those that the file has."""
    if indexed.description is None:
        return None
    fields, index = dict(indexed.description.fields), indexed.index
    if set(fields) != set(index.columns):
        problem = f"its annex describes the fields {', '.join(fields)}, and the file has {', '.join(index.columns)}"
        fix = f"Make a new one with: headrace index --fresh {indexed.file.path}"
        raise FormatError(indexed.file.path, problem=problem, fix=fix)
    return fields


def _field_of(indexed: IndexedFile, name: str, kinds: Kinds) -> Field:
    held = set(kinds)
    if held <= {"bytes"}:
        return Image() if _has_pictures(indexed, name) else Bytes()
    if held in ({"text"}, {"time"}):
        return Text()
    if held in ({"integer"}, {"boolean"}):
        return Int()
    if held <= {"integer", "floating"}:
        return Float()
    if held <= _JSON:
        return Json()
    if held <= _JSON | {"mixed_container"}:
        return Coded("msgpack")
    ordered = sorted(kinds, key=lambda kind: kinds[kind])
    raise FormatError(
        indexed.file.path,
        problem=f"sample {kinds[ordered[1]]}, field {name!r}: {ordered[1]}, and sample {kinds[ordered[0]]} has "
        f"{ordered[0]} there; a field has values of one kind",
        offset=int(indexed.index.offsets[kinds[ordered[1]], indexed.index.columns.index(name)]),
        fix="Write the stream again with values of one kind.",
    )


def _has_pictures(indexed: IndexedFile, name: str) -> bool:
    index = indexed.index
    column = index.columns.index(name)
    offsets, sizes = (np.ascontiguousarray(table[:_FIRST, column]) for table in (index.offsets, index.sizes))
    try:
        heads = indexed.file.read(offsets, np.minimum(sizes, np.uint64(_HEAD_BYTES)))
    except BadSpanError:  # an annex that lies; whoever reads them tells
        return False
    return bool(heads) and all(_is_picture(head) for head in heads)


def _is_picture(head: bytes) -> bool:
    return head.startswith(_PICTURES) or (head[:4] == b"RIFF" and head[8:12] == b"WEBP")


def _unpack(data: bytes) -> Any:
    msgpack = require("msgpack", "values of MessagePack that are lists or maps")
    try:
        value = msgpack.unpackb(data, strict_map_key=False)
    except (msgpack.UnpackException, TypeError, OverflowError, RecursionError) as error:
        raise ValueError(f"msgpack: {type(error).__name__}: {error}") from None
    return _iso_time(value) if isinstance(value, msgpack.Timestamp) else value


def _iso_time(time: Any) -> str:
    seconds = str(np.datetime64(time.seconds, "s"))
    return f"{seconds}.{time.nanoseconds:09d}Z" if time.nanoseconds else f"{seconds}Z"
