"""What Arrow's types mean here: which field a column becomes, and which fields it can be read as."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from headrace.fields import Bytes, Float, Image, Int, Json, NDArray, Text
from headrace.registry import require

if TYPE_CHECKING:
    from headrace.types import Field

__all__ = ["Kind", "array_form", "fits", "infer_field", "kind_of", "leaf_dtype", "picture_parts", "storage_type"]

Kind: TypeAlias = Literal["int", "float", "bytes", "words", "time", "array", "list", "picture", "nested"]
"""How a column is read: ``words`` is a dictionary of texts, ``array`` a list of fixed length of numbers."""

_MAX_DEPTH = 32


def storage_type(kind: Any) -> Any:
    """The type that values of an extension type are stored as."""
    pyarrow = require("pyarrow", "reading Arrow data")
    while isinstance(kind, pyarrow.BaseExtensionType):
        kind = kind.storage_type
    return kind


def kind_of(arrow_type: Any) -> Kind | None:
    """How a column of a type is read; None if it cannot be."""
    types = require("pyarrow", "reading Arrow data").types
    kind = storage_type(arrow_type)
    if types.is_integer(kind) or types.is_boolean(kind):
        return "int"
    if types.is_floating(kind):
        return "float"
    if _is_bytes(kind):
        return "bytes"
    if types.is_timestamp(kind) or types.is_date(kind) or types.is_time(kind) or types.is_decimal(kind):
        return "time"
    if types.is_dictionary(kind):
        return "words" if _is_bytes(kind.value_type) and not _is_view(kind.value_type) else None
    if array_form(kind) is not None:
        return "array"
    if picture_parts(kind) is not None:
        return "picture"
    if leaf_dtype(kind) is not None:
        return "list"
    return "nested" if _is_nested(kind) and _has_values(kind, 0) else None


def infer_field(arrow_type: Any) -> Field | None:
    """The field that a column becomes when nothing else is known about it."""
    types = require("pyarrow", "reading Arrow data").types
    kind = storage_type(arrow_type)
    how = kind_of(arrow_type)
    if how == "words":
        how, kind = "bytes", kind.value_type
    if how == "bytes":
        is_text = types.is_string(kind) or types.is_large_string(kind) or _is_view(kind, text=True)
        return Text() if is_text else Bytes()
    if how == "array":
        dtype, shape = array_form(arrow_type) or (np.dtype(np.uint8), (1,))
        return NDArray(dtype, shape)
    plain: dict[Kind, Field] = {"int": Int(), "float": Float(), "time": Text(), "picture": Bytes()}
    return None if how is None else plain.get(how, Json())


def fits(arrow_type: Any, field: Field) -> bool:
    """A column of a type can be read as a field."""
    how = kind_of(arrow_type)
    if how is None:
        return False
    if isinstance(field, Int | Float):
        return how == "int" or (how == "float" and isinstance(field, Float))
    if isinstance(field, NDArray):
        return how == "bytes" or _fits_array(storage_type(arrow_type), field)
    if isinstance(field, Image) and how == "array":
        dtype, shape = array_form(arrow_type) or (np.dtype(np.uint8), ())
        return dtype == np.uint8 and len(shape) == 3 and shape[2] == 3
    if isinstance(field, Json):
        return True
    return how in ("bytes", "words", "picture") or (how == "time" and isinstance(field, Text))


def _fits_array(kind: Any, field: NDArray) -> bool:
    form = array_form(kind)
    dtype = leaf_dtype(kind) if form is None else form[0]
    if dtype is None or not np.can_cast(dtype, field.dtype, "safe"):
        return False
    return form is None or math.prod(form[1]) == math.prod(field.shape)


def picture_parts(kind: Any) -> int | None:
    """Which part of a struct has the bytes, for structs of ``bytes`` and ``path`` as Hugging Face stores pictures."""
    types = require("pyarrow", "reading Arrow data").types
    if not types.is_struct(kind) or not 1 <= kind.num_fields <= 2:
        return None
    names = [kind.field(i).name for i in range(kind.num_fields)]
    if "bytes" not in names or not set(names) <= {"bytes", "path"}:
        return None
    inner = kind.field(names.index("bytes")).type
    return names.index("bytes") if types.is_binary(inner) or types.is_large_binary(inner) else None


def array_form(arrow_type: Any) -> tuple[np.dtype[Any], tuple[int, ...]] | None:
    """Dtype and shape of lists of fixed length of numbers, nested or not."""
    types = require("pyarrow", "reading Arrow data").types
    kind = storage_type(arrow_type)
    sides: list[int] = []
    while types.is_fixed_size_list(kind) and len(sides) < _MAX_DEPTH:
        sides.append(kind.list_size)
        kind = kind.value_type
    dtype = _dtype_of(kind)
    if not sides or dtype is None or min(sides) < 1:
        return None
    shape = getattr(arrow_type, "shape", None)  # of Arrow's own extension type for tensors, which has one list
    if shape is not None and getattr(arrow_type, "permutation", None) is None and math.prod(shape) == math.prod(sides):
        sides = list(shape)
    return dtype, tuple(sides)


def leaf_dtype(kind: Any) -> np.dtype[Any] | None:
    """The dtype of the numbers at the bottom of lists of any length; None where something else is."""
    types = require("pyarrow", "reading Arrow data").types
    depth = 0
    while (types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)) and depth < _MAX_DEPTH:
        kind, depth = kind.value_type, depth + 1
    return _dtype_of(kind) if depth else None


def _dtype_of(kind: Any) -> np.dtype[Any] | None:
    types = require("pyarrow", "reading Arrow data").types
    if types.is_boolean(kind) or types.is_integer(kind) or types.is_floating(kind):
        dtype: np.dtype[Any] = np.dtype(kind.to_pandas_dtype())
        return dtype
    return None


def _is_view(kind: Any, *, text: bool = False) -> bool:
    return str(kind) in (("string_view",) if text else ("string_view", "binary_view"))  # older pyarrow has none


def _is_bytes(kind: Any) -> bool:
    types = require("pyarrow", "reading Arrow data").types
    is_plain = types.is_string(kind) or types.is_large_string(kind)
    is_binary = types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind)
    return bool(is_plain or is_binary or _is_view(kind))


def _is_nested(kind: Any) -> bool:
    types = require("pyarrow", "reading Arrow data").types
    is_list = types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)
    return bool(is_list or types.is_struct(kind) or types.is_map(kind))


def _has_values(kind: Any, depth: int) -> bool:
    """Python has values for all of it, and no value can be written down twice by one that refers to it."""
    types = require("pyarrow", "reading Arrow data").types
    kind = storage_type(kind)
    if depth > _MAX_DEPTH:
        return False
    if types.is_map(kind):
        return _has_values(kind.key_type, depth + 1) and _has_values(kind.item_type, depth + 1)
    if types.is_struct(kind):
        return all(_has_values(kind.field(i).type, depth + 1) for i in range(kind.num_fields))
    if _is_nested(kind):
        return _has_values(kind.value_type, depth + 1)
    is_plain = _dtype_of(kind) is not None or types.is_null(kind) or types.is_temporal(kind) or types.is_decimal(kind)
    return bool(is_plain or (_is_bytes(kind) and not _is_view(kind)))
