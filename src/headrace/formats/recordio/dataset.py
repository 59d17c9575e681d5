"""A RecordIO file as a dataset: pictures with label and number, or records of any bytes."""

from __future__ import annotations

import math
import warnings
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from headrace import _native
from headrace.errors import FormatError
from headrace.fields import Bytes, Float, Image, Int, Json, NDArray
from headrace.formats.contract import BaseDataset, join_images
from headrace.formats.decodes import override_schema
from headrace.formats.guesses import FIRST_VALUES, guess_field
from headrace.formats.recordio.header import HEADER, split_header
from headrace.formats.recordio.key_file import key_path, read_keys
from headrace.formats.recordio.scan import CONTENT, RECORD, RecordFacts, scan
from headrace.formats.spans import IndexedFile, SpanDataset, fill_options
from headrace.formats.spans.span_file import BadSpanError
from headrace.types import Problem

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Unpack

    from headrace.errors import PathLike
    from headrace.formats.description import Description
    from headrace.formats.recordio.key_file import Keys
    from headrace.formats.report import Found
    from headrace.formats.spans import SpanOptions
    from headrace.types import Field, ImageSpans, IndexArray, Ragged, Source

__all__ = ["RecordioDataset"]

_HEAD_BYTES = np.uint64(8)
_LARGEST = np.uint64(2**63 - 1)
_FRESH = "Make a new one with: headrace index --fresh"


class RecordioDataset(SpanDataset):
    """Records of a RecordIO file.

    Records with the header that MXNet writes have the fields ``image`` (or ``data``, when they are no pictures),
    ``label`` and ``id``. The label is an Int where every sample has one whole number, a Float where it has one number,
    an NDArray where all have as many, and else Json: a number or a list. Other records have the field ``data``.

    Args:
        path: the file.
        headers: whether records begin as MXNet's do; by default that is found out.
        keys: use the ``.idx`` beside the file: it gives the order and, unless its keys just count, the names.
        description: what the fields are where no annex says it, such as a writer knows it.
        **options: see ``SpanOptions``.
    """

    def __init__(
        self,
        path: PathLike,
        *,
        headers: bool | None = None,
        keys: bool = True,
        description: Description | None = None,
        **options: Unpack[SpanOptions],
    ) -> None:
        known = fill_options(options, headers=headers, keys=keys, description=description)
        follow_links = known["follow_links"]
        how = {"keep_index": known["keep_index"] and headers is None and keys, "cold": known["cold"]}
        open_file = partial(IndexedFile, path, format_name="recordio", follow_links=follow_links, **how)
        indexed = _open(path, open_file, headers, known["annex"], _find_keys(path, follow_links) if keys else None)
        self._facts = _read_facts(indexed)
        self._split = np.array(sorted(self._facts.split), np.int64)
        described = indexed.description or description
        found, content = _found_schema(indexed, described, self._facts, self._split)
        wanted = {name: known[name] for name in ("fields", "decode", "allow_pickle")}
        schema = override_schema(indexed.file.path, found, **wanted)
        _check_label(indexed.file.path, schema, self._facts)
        super().__init__(
            indexed,
            schema=schema,
            options=known,
            columns={content: CONTENT},
            class_names=None if described is None else described.class_names,
        )
        self._content = content

    # Reading

    def _is_split(self, indices: IndexArray) -> npt.NDArray[np.bool_]:
        return np.isin(indices, self._split)

    def _stored(self, indices: IndexArray, field: str) -> Sequence[Any] | npt.NDArray[Any]:
        self._check_field(field)
        if not len(indices):
            return []
        if field != self._content:
            return self._from_headers(indices, field)
        stored = super()._stored(indices, field)
        split = np.flatnonzero(self._is_split(indices)).tolist()
        if not split:
            return stored
        values = list(stored)
        for position in split:
            values[position] = self._joined(int(indices[position]), field, values[position])[2]
        return values

    def _joined(self, sample: int, field: str, record: bytes) -> tuple[Any, int, bytes]:
        """Label, number and content of a record that is split."""
        try:
            data = _native.join_recordio(record)
        except _native.NativeError as error:
            raise self._corrupt(sample, field, ValueError(error.detail)) from None
        parts = split_header(data) if self._facts.has_headers else (0.0, 0, data)
        if parts is None:
            raise self._corrupt(sample, field, ValueError("the record is too short for its header"))
        return parts

    def _from_headers(self, indices: IndexArray, field: str) -> Sequence[Any] | npt.NDArray[Any]:
        try:
            if field == "id" or self._is_uniform(indices):
                table = self._header_table(indices, self._facts.length if field == "label" else 0)
                return self._column_of(indices, table, field)
            return [
                self._label_of(i, field, record)
                for i, record in zip(indices.tolist(), self._whole(indices), strict=True)
            ]
        except BadSpanError as error:
            sample = int(indices[error.position])
            raise self._corrupt(sample, field, ValueError(error.problem)) from None

    def _header_table(self, indices: IndexArray, labels: int) -> npt.NDArray[Any]:
        """Headers of the same length, as rows of bytes."""
        size = HEADER.itemsize + 4 * labels
        ragged = self.indexed.file.read_ragged(*self._header_places(indices, labels))
        rows: npt.NDArray[Any] = ragged.values.reshape(-1, size)
        split = np.flatnonzero(self._is_split(indices))
        for position, record in zip(split.tolist(), self._whole(indices[split]), strict=True):
            number = self._joined(int(indices[position]), "id", record)[1]
            rows[position, : HEADER.itemsize] = np.array([(0, 0, number, 0)], HEADER).view(np.uint8)
        return rows

    def _header_places(self, indices: IndexArray, labels: int) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
        starts = np.ascontiguousarray(self.indexed.index.offsets[indices, 0]) + _HEAD_BYTES
        return starts, np.full(len(starts), HEADER.itemsize + 4 * labels, np.uint64)

    def _record_places(self, indices: IndexArray) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
        offsets, sizes = (np.ascontiguousarray(table[indices, 0]) for table in self._places_of)
        return offsets, sizes

    def _whole(self, indices: IndexArray) -> list[bytes]:
        """Whole records."""
        return self.indexed.file.read(*self._record_places(indices)) if len(indices) else []

    def _wanted(self, indices: IndexArray, field: str) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]] | None:
        if field == self._content:
            return super()._wanted(indices, field)
        if field == "id" or self._is_uniform(indices):
            return self._header_places(indices, self._facts.length if field == "label" else 0)
        return self._record_places(indices)

    def _is_uniform(self, indices: IndexArray) -> bool:
        """All labels are of one length, and stand where those of whole records do."""
        return self._facts.label != "mixed" and not bool(self._is_split(indices).any())

    @property
    def _places_of(self) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
        return self.indexed.index.offsets, self.indexed.index.sizes

    def _column_of(self, indices: IndexArray, rows: npt.NDArray[np.uint8], field: str) -> npt.NDArray[Any]:
        heads = np.ascontiguousarray(rows[:, : HEADER.itemsize]).view(HEADER)[:, 0]
        if field == "id":
            large = heads["id"] > _LARGEST
            if large.any():
                sample = int(indices[np.argmax(large)])
                raise self._corrupt(sample, field, ValueError("the id has more than 63 bits"))
            return heads["id"].astype(np.int64)
        if (heads["flag"] != self._facts.length).any():
            sample = int(indices[np.argmax(heads["flag"] != self._facts.length)])
            raise self._corrupt(sample, field, ValueError("it has not as many labels as all samples had"))
        kind = self._schema[field]
        if self._facts.length:
            values = np.ascontiguousarray(rows[:, HEADER.itemsize :]).view("<f4")
            return values.reshape(-1, *kind.shape) if isinstance(kind, NDArray) else values
        return np.array(heads["label"])

    def _label_of(self, index: int, field: str, record: bytes) -> Any:
        label = self._joined(index, field, record)[0]
        if isinstance(label, float):
            return label
        kind = self._schema[field]
        return label.reshape(kind.shape) if isinstance(kind, NDArray) else label.tolist()

    def read_values(
        self, indices: IndexArray, field: str, source: Source | None = None
    ) -> list[Any] | npt.NDArray[Any]:
        """Decoded values of one field; an array where they have one dtype and shape."""
        values = super().read_values(indices, field, source)
        if field == "label" and isinstance(self._schema[field], Json) and isinstance(values, np.ndarray):
            return list(values.tolist())
        return values

    def read_ragged(self, indices: IndexArray, field: str, source: Source | None = None) -> Ragged:
        """Stored bytes of one field, one value after the other."""
        if field == self._content and not self._is_split(indices).any():
            return super().read_ragged(indices, field, source)
        return BaseDataset.read_ragged(self, indices, field, source)

    def image_spans(self, indices: IndexArray, field: str, source: Source | None = None) -> ImageSpans:
        """The undecoded bytes of pictures, where they are; those of split records are put together first."""
        if field == self._content and self._is_split(indices).any():
            return join_images(self.path, field, indices, self.read_bytes(indices, field))
        return super().image_spans(indices, field, source)

    # Checking

    def _check(self, indices: IndexArray, decode: bool) -> Found:
        found = super()._check(indices, decode)
        found.size_bytes = int(self.indexed.index.sizes[indices, 0].sum())
        if self._checksums is not None and self._options["checksums"]:
            offsets, sizes = self._record_places(indices)
            bad = {problem.sample for problem in found.problems}
            base, starts = self.indexed.file.region(offsets, sizes)
            wrong = _native.crc32c_spans(base, starts, sizes) != self._checksums[indices, 0]
            for sample in indices[wrong].tolist():
                if sample not in bad:
                    message = "the record is not the one that its checksum was made of"
                    found.problems.append(Problem(sample=sample, field=None, message=message))
        return found


def _find_keys(path: PathLike, follow_links: bool) -> Keys | None:
    try:
        return read_keys(path, follow_links=follow_links)
    except ValueError as error:
        _warn(path, error)
        return None


def _warn(path: PathLike, error: ValueError) -> None:
    problem = f"{key_path(path)} is not used: {error}. Samples are in the order of the file"
    warnings.warn(problem, RuntimeWarning, stacklevel=4)


def _open(path: PathLike, open_file: Any, headers: bool | None, annex: bool, keys: Keys | None) -> IndexedFile:
    """The file with its index; without the keys if they do not fit, and without an annex that has others."""
    try:
        indexed: IndexedFile = open_file(scan=partial(scan, keys=keys, headers=headers), annex=annex)
    except FormatError:
        raise
    except ValueError as error:
        _warn(path, error)
        keys = None
        indexed = open_file(scan=partial(scan, headers=headers), annex=annex)
    facts = indexed.index.facts
    wanted = None if keys is None else keys.checksum
    is_right = facts.get("keys") == wanted and headers in (None, facts.get("has_headers"))
    if is_right or indexed.annex is None:
        return indexed
    return _open(path, open_file, headers, False, keys)


def _read_facts(indexed: IndexedFile) -> RecordFacts:
    try:
        if indexed.index.columns != (RECORD, CONTENT):
            raise ValueError("it has other columns")
        return RecordFacts.parse(indexed.index.facts, len(indexed.index))
    except (ValueError, TypeError, KeyError) as error:
        path = indexed.file.path
        problem = f"the annex does not say what its records are ({error})"
        raise FormatError(path, problem=problem, fix=f"{_FRESH} {path}") from None


def _found_schema(
    indexed: IndexedFile, described: Description | None, facts: RecordFacts, split: npt.NDArray[np.int64]
) -> tuple[dict[str, Field], str]:
    """The fields, and which of them is the content."""
    if described is not None:
        known = dict(described.fields)
        contents = [name for name in known if name not in ("label", "id")]
        if len(contents) == 1 and (facts.has_headers or len(known) == 1 or not len(indexed.index)):
            return known, contents[0]
    field: Field = _guess(indexed, split)
    if not facts.has_headers:
        return {"data": Bytes()}, "data"
    content = "image" if isinstance(field, Image) else "data"
    return {content: field if content == "image" else Bytes(), "label": _label_field(facts), "id": Int()}, content


def _guess(indexed: IndexedFile, split: npt.NDArray[np.int64]) -> Field:
    """By the first contents that lie in one piece."""
    index = indexed.index
    first = np.setdiff1d(np.arange(min(len(index), FIRST_VALUES)), split)
    offsets, sizes = (np.ascontiguousarray(table[first, 1]) for table in (index.offsets, index.sizes))
    try:
        return guess_field(indexed.file.read(offsets, sizes))
    except BadSpanError as error:
        path = indexed.file.path
        problem = f"the first records cannot be read ({error.problem})"
        raise FormatError(path, problem=problem, fix=f"If it has an annex: {_FRESH} {path}") from None


def _label_field(facts: RecordFacts) -> Field:
    if facts.label == "array":
        return NDArray("<f4", (facts.length,))
    by_label: dict[str, Field] = {"int": Int(), "float": Float()}
    return by_label.get(facts.label, Json())


def _check_label(path: str, schema: Mapping[str, Field], facts: RecordFacts) -> None:
    field = schema.get("label")
    if field is None or isinstance(field, Json) or not facts.has_headers:
        return
    if facts.label in ("int", "float") and isinstance(field, Int | Float if facts.label == "int" else Float):
        return
    is_array = isinstance(field, NDArray) and field.dtype == np.float32 and facts.label == "array"
    if is_array and math.prod(getattr(field, "shape", ())) == facts.length:
        return
    raise ValueError(f"{path}: the label cannot be {field!r}; it is {_label_field(facts)!r} or Json()")
