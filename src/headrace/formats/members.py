"""Files as samples: which files make them up, and what fields, labels and values come of that."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from headrace.codecs import image as image_codec
from headrace.codecs import npy
from headrace.errors import FormatError
from headrace.fields import Bytes, Image, Json, NDArray, Text

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.types import Field

__all__ = ["Members", "common_field", "field_for", "grouped_members", "labels_of", "ungrouped_members"]

_KINDS = {".txt": "text", ".json": "json", ".npy": "npy"} | dict.fromkeys(image_codec.SUFFIXES, "image")
_ENDINGS = tuple(_KINDS)


class Members:
    """Which files make up the samples."""

    def __init__(self, keys: list[str], kinds: dict[str, str], rows: dict[str, list[Any]]) -> None:
        self.keys = keys
        self.kinds = kinds
        self.rows = rows
        self.names = {field: [row[0] for row in found] for field, found in rows.items()}


def _kind_of(name: str) -> str:
    return _KINDS.get(os.path.splitext(name)[1].lower(), "bytes") if name.lower().endswith(_ENDINGS) else "bytes"


def ungrouped_members(rows: list[Any], *, as_bytes: bool) -> Members:
    """Every file is a sample; if there are pictures, only they are. A row is a name and whatever belongs to it."""
    each = ["bytes"] * len(rows) if as_bytes else [_kind_of(row[0]) for row in rows]
    kinds = set(each)
    if "image" in kinds:
        rows = [row for row, kind in zip(rows, each, strict=True) if kind == "image"]
        kinds = {"image"}
    field, kind = _field_of(kinds)
    return Members([row[0] for row in rows], {field: kind}, {field: rows})


def common_field(names: list[str], *, as_bytes: bool) -> tuple[str, str]:
    """The name and the kind of the field of files of which each is a sample.

    Example:
        >>> common_field(["a.npy", "b.npy"], as_bytes=False), common_field(["a.npy", "b.txt"], as_bytes=False)
        (('array', 'npy'), ('bytes', 'bytes'))
    """
    return _field_of({"bytes"} if as_bytes else set(map(_kind_of, names)))


def _field_of(kinds: set[str]) -> tuple[str, str]:
    kind = next(iter(kinds)) if len(kinds) == 1 else "bytes"
    return {"npy": "array"}.get(kind, kind), kind


def grouped_members(path: str, rows: list[Any]) -> Members:
    """Files whose paths differ only in what follows the first dot of the name are one sample."""
    samples: dict[str, dict[str, Any]] = {}
    for row in rows:
        directory, slash, name = row[0].rpartition("/")
        stem, _, ending = name.partition(".")
        sample, field = samples.setdefault(directory + slash + stem, {}), ending.lower() or "data"
        if field in sample:
            raise FormatError(
                path,
                problem=f"{sample[field][0]} and {row[0]} would be the same field of a sample",
                fix="Rename one of them, or open without group=True.",
            )
        sample[field] = row
    fields = list(dict.fromkeys(field for sample in samples.values() for field in sample))
    for key, sample in samples.items():
        if len(sample) != len(fields):
            missing = sorted(set(fields) - set(sample))
            raise FormatError(
                path,
                problem=f"sample {key} has no {', '.join(missing)}, which other samples have",
                fix="Groups need the same endings everywhere; open without group=True, or add what is missing.",
            )
    kinds = {field: _kind_of(f"x.{field}") for field in fields}
    return Members(list(samples), kinds, {f: [sample[f] for sample in samples.values()] for f in fields})


def labels_of(keys: list[str]) -> tuple[list[str], npt.NDArray[np.int64] | None]:
    """Classes and labels from the first directories; None where a file lies in none."""
    folders = [key.partition("/")[0] for key in keys if "/" in key]
    if len(folders) != len(keys):
        return [], None
    classes = sorted(set(folders))
    numbers = {name: i for i, name in enumerate(classes)}
    return classes, np.fromiter((numbers[name] for name in folders), np.int64, len(folders))


def _load_array(data: bytes) -> npt.NDArray[Any] | None:
    try:
        return npy.decode(data)
    except ValueError:
        return None


def field_for(kind: str, read_first: Callable[[], bytes]) -> Field:
    """The field of files of one kind; for arrays the first of them says dtype and shape."""
    plain: dict[str, Field] = {"image": Image(), "text": Text(), "json": Json()}
    if kind != "npy":
        return plain.get(kind, Bytes())
    array = _load_array(read_first())
    return NDArray(array.dtype, array.shape) if array is not None and array.size and array.ndim else Bytes()
