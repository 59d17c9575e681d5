"""Fields as plain JSON values, for the annex and for ``--json``."""

from __future__ import annotations

from dataclasses import fields as dataclass_fields
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace.fields.arrays import NDArray, Tensor, dtype_from_text
from headrace.fields.binary import Bytes, Json, Text
from headrace.fields.image import Image
from headrace.fields.scalars import Float, Int

if TYPE_CHECKING:
    from headrace.types import Field

__all__ = ["KINDS", "KINDS_OF_BYTES", "from_spec", "to_spec"]

_BY_KIND: dict[str, type[Any]] = {cls.kind: cls for cls in (Int, Float, Image, Bytes, Json, Text, NDArray, Tensor)}
KINDS = frozenset(_BY_KIND)
"""Kinds of the fields that headrace brings."""
KINDS_OF_BYTES = frozenset(kind for kind, cls in _BY_KIND.items() if cls.has_payload) | {"coded"}
"""Kinds of which a value can stand alone as bytes."""


def to_spec(field: Field) -> dict[str, Any]:
    """Describe a field by its kind and options.

    Example:
        >>> to_spec(NDArray("float32", (2,)))
        {'kind': 'ndarray', 'dtype': '<f4', 'shape': [2]}
    """
    spec: dict[str, Any] = {"kind": field.kind}
    for option in dataclass_fields(field):  # type: ignore[arg-type]  # every field is a dataclass
        value = getattr(field, option.name)
        if isinstance(value, np.dtype):
            value = value.str
        spec[option.name] = list(value) if isinstance(value, tuple) else value
    return spec


def from_spec(spec: dict[str, Any]) -> Field:
    """Build the field that ``to_spec`` described; ValueError when that is not possible."""
    options = dict(spec)
    kind = options.pop("kind", None)
    cls = _BY_KIND.get(kind) if isinstance(kind, str) else None
    if cls is None:
        raise ValueError(f"no field is of kind {kind!r}; known are {', '.join(_BY_KIND)}")
    if "dtype" in options:
        options["dtype"] = dtype_from_text(options["dtype"])
    try:
        field: Field = cls(**options)
    except (TypeError, OverflowError) as error:
        raise ValueError(f"options of a field of kind {kind!r}: {error}") from None
    return field
