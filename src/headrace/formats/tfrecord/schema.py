"""Which fields a TFRecord file has: as they were written, as they look, as the caller wants them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace.errors import FormatError
from headrace.fields import Bytes
from headrace.formats.decodes import override_schema
from headrace.formats.guesses import FIRST_VALUES
from headrace.formats.spans.span_file import BadSpanError
from headrace.formats.tfrecord.features import DATA, Feature
from headrace.formats.tfrecord.scan import FEATURES, RECORD
from headrace.formats.tfrecord.stored import byte_lists

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.formats.decodes import Decode
    from headrace.formats.spans import IndexedFile
    from headrace.types import Field

__all__ = ["choose_schema", "read_features"]

_FRESH = "Make a new one with: headrace index --fresh"


def read_features(indexed: IndexedFile, examples: bool | None) -> dict[str, Feature]:
    """What the columns hold, by name; ``data`` alone where records are no Examples, or are not to be taken for some."""
    path = indexed.file.path
    facts = indexed.index.facts.get(FEATURES)
    if examples is False or facts is None:
        if examples:
            raise FormatError(path, problem="its records are no Examples", fix="Leave out examples=True.")
        return {"data": DATA}
    try:
        features = {name: Feature.parse(value) for name, value in facts.items()}
        if not {*features, RECORD} <= {*indexed.index.columns}:
            raise ValueError("columns are missing")
    except (ValueError, TypeError, AttributeError) as error:
        problem = f"the annex does not say what its features are ({error})"
        raise FormatError(path, problem=problem, fix=f"{_FRESH} {path}") from None
    return features


def choose_schema(
    indexed: IndexedFile,
    features: Mapping[str, Feature],
    *,
    fields: Mapping[str, Field] | None,
    decode: Decode | Mapping[str, Decode] | None,
    allow_pickle: bool,
) -> dict[str, Field]:
    """The fields by name, in order; ValueError or FormatError when one does not fit what is stored."""
    path = indexed.file.path
    found = _found(indexed, features)
    schema = override_schema(path, found, fields=fields, decode=decode, allow_pickle=allow_pickle)
    for name, field in schema.items():
        problem = features[name].problem_with(field) if name in features else None
        if problem is not None and name in (fields or {}):
            raise ValueError(f"fields[{name!r}] is {field!r}, and {problem}")
        if problem is not None:
            told = f"the annex says that {name!r} is {field!r}, and {problem}"
            raise FormatError(path, problem=told, fix=f"{_FRESH} {path}")
    return schema


def _found(indexed: IndexedFile, features: Mapping[str, Feature]) -> dict[str, Field]:
    described: Mapping[str, Field] = {} if indexed.description is None else indexed.description.fields
    if features == {"data": DATA}:
        return dict(described) if described and not len(indexed.index) else {"data": described.get("data", Bytes())}
    names = dict.fromkeys((*described, *features))
    return {
        name: described[name] if name in described else features[name].field(partial(_first, indexed, name, features))
        for name in names
        if name in features
    }


def _first(indexed: IndexedFile, name: str, features: Mapping[str, Feature]) -> list[Any]:
    """Byte strings of the first samples, or lists of them; those that are damaged say nothing."""
    index, feature = indexed.index, features[name]
    column = index.columns.index(name)
    good = np.flatnonzero(index.offsets[:FIRST_VALUES, column] <= indexed.file.size_bytes)
    offsets, sizes = (np.ascontiguousarray(table[good, column]) for table in (index.offsets, index.sizes))
    try:
        if feature.is_bytes:
            return indexed.file.read(offsets, sizes)
        base, starts = indexed.file.region(offsets, sizes)
        return byte_lists((base, starts, sizes), feature)
    except BadSpanError as error:
        path = indexed.file.path
        problem = f"the first values of {name!r} cannot be read ({error})"
        raise FormatError(path, problem=problem, fix=f"If it has an annex: {_FRESH} {path}") from None
