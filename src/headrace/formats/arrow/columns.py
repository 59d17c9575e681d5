"""The columns of a table as fields: by Arrow's types, by what Hugging Face says, and by what headrace has written."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from headrace.errors import FormatError
from headrace.fields import Image, problem_with_name
from headrace.formats.arrow.column_types import fits, infer_field, kind_of
from headrace.formats.arrow.huggingface import class_names_of, field_of, parse_features
from headrace.formats.description import Description

if TYPE_CHECKING:
    from headrace.types import Field

__all__ = ["DESCRIPTION_KEY", "KEYS", "Columns", "check_fields", "find_columns"]

KEYS = "__key__"
DESCRIPTION_KEY = b"headrace"
_HUGGINGFACE_KEY = b"huggingface"
_log = logging.getLogger("headrace")


@dataclass(kw_only=True, slots=True)
class Columns:
    """What the columns of a table are.

    ``numbers`` says which column of the table a field is; ``words`` are the fields whose classes are the words of a
    dictionary; ``left_out`` has a line for each column that is no field; ``key_column`` holds the names of samples.
    """

    fields: dict[str, Field] = field(default_factory=dict)
    numbers: dict[str, int] = field(default_factory=dict)
    class_names: dict[str, list[str]] = field(default_factory=dict)
    words: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    key_column: int | None = None
    metadata: Any = None


def find_columns(path: str, schema: Any, info: bytes = b"") -> Columns:
    """Fields for the columns of a schema of Arrow.

    Args:
        path: of the file, for messages.
        schema: of the table.
        info: the text of ``dataset_info.json``, for a folder that Hugging Face has saved.
    """
    about = schema.metadata or {}
    features = _features(path, about, info)
    described = _description(path, about)
    found = Columns(metadata=described.metadata)
    for number, column in enumerate(schema):
        if column.name == KEYS and infer_field(column.type) is not None and kind_of(column.type) == "bytes":
            found.key_column = number
            continue
        problem = _problem(column, found)
        if problem is not None:
            found.left_out.append(problem)
            continue
        found.numbers[column.name] = number
        found.fields[column.name] = _field_for(column, features.get(column.name, {}), described)
        _add_classes(found, column, features.get(column.name, {}), described)
    for line in found.left_out:
        _log.warning("%s: %s", path, line)
    return found


def _features(path: str, about: dict[bytes, bytes], info: bytes) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for text, is_info in ((about.get(_HUGGINGFACE_KEY), False), (info, True)):
        if not text:
            continue
        try:
            found |= parse_features(text, is_info=is_info)
        except ValueError as error:
            _log.warning("%s: what Hugging Face says about its columns cannot be read (%s)", path, error)
    return found


def _description(path: str, about: dict[bytes, bytes]) -> Description:
    text = about.get(DESCRIPTION_KEY)
    return Description(fields={}) if text is None else Description.parse(path, text)


def _problem(column: Any, found: Columns) -> str | None:
    if problem := problem_with_name(column.name):
        return f"column {column.name!r} is left out: {problem}"
    if column.name in found.fields:
        return f"column {column.name!r} is left out: another one has that name"
    if infer_field(column.type) is None:
        return f"column {column.name!r} is left out: there is no field for its type ({column.type})"
    return None


def _field_for(column: Any, feature: dict[str, Any], described: Description) -> Field:
    for known in (described.fields.get(column.name), field_of(feature)):
        if known is not None and fits(column.type, known):
            return known
    inferred = infer_field(column.type)
    assert inferred is not None
    return inferred


def _add_classes(found: Columns, column: Any, feature: dict[str, Any], described: Description) -> None:
    names = described.class_names.get(column.name) or class_names_of(feature)
    if names is not None:
        found.class_names[column.name] = list(names)
    elif kind_of(column.type) == "words" and infer_field(column.type) == found.fields[column.name]:
        found.words.append(column.name)


def check_fields(path: str, schema: Any, columns: Columns, fields: dict[str, Field]) -> None:
    """ValueError for fields that columns cannot be read as."""
    for name, wanted in fields.items():
        column = schema.field(columns.numbers[name])
        if not fits(column.type, wanted):
            more = "; a picture is bytes, or uint8 of height x width x 3" if isinstance(wanted, Image) else ""
            raise ValueError(f"{path}: column {name!r} ({column.type}) cannot be read as {wanted!r}{more}")


def no_columns(path: str, columns: Columns) -> FormatError:
    """The error for a table that has no column that could be a field."""
    why = "; ".join(columns.left_out) or "it has no columns"
    return FormatError(path, problem=f"no column of it can be a field: {why}")
