"""Dtypes of the file's parts, and which field has which type id."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from headrace.compat.ffcv.fields import (
    BytesField,
    FloatField,
    IntField,
    JSONField,
    NDArrayField,
    RGBImageField,
    TorchTensorField,
)
from headrace.compat.passed_on import pass_on

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.compat.ffcv.fields import Field

__all__ = [
    "ALLOC_TABLE_TYPE",
    "CURRENT_VERSION",
    "TYPE_ID_HANDLER",
    "FieldDescType",
    "HeaderType",
    "get_handlers",
    "get_metadata_type",
]
pass_on(globals(), "BytesField Field FloatField IntField JSONField List NDArrayField RGBImageField TorchTensorField np")

CURRENT_VERSION = 2

HeaderType = np.dtype(
    [
        ("version", "<u2"),
        ("num_fields", "<u2"),
        ("page_size", "<u4"),
        ("num_samples", "<u8"),
        ("alloc_table_ptr", "<u8"),
    ],
    align=True,
)
ALLOC_TABLE_TYPE = np.dtype([("sample_id", "<u8"), ("ptr", "<u8"), ("size", "<u8")])
FieldDescType = np.dtype([("type_id", "<u1"), ("name", "<u1", 16), ("arguments", "<u1", 1024)], align=True)

TYPE_ID_HANDLER: dict[int, Any] = {
    255: None,
    0: FloatField,
    1: IntField,
    2: RGBImageField,
    3: BytesField,
    4: NDArrayField,
    5: JSONField,
    6: TorchTensorField,
}


def get_metadata_type(handlers: Sequence[Field]) -> np.dtype[Any]:
    """Dtype of one metadata record, members f0, f1 and so on."""
    return np.dtype([(f"f{i}", handler.metadata_type) for i, handler in enumerate(handlers)], align=True)


def get_handlers(field_descriptors: Any) -> list[Any]:
    """The field of each descriptor, None for those of a user's own type."""
    handlers = []
    for descriptor in field_descriptors:
        type_id = int(descriptor["type_id"])
        if type_id not in TYPE_ID_HANDLER:
            raise ValueError(f"a field has type id {type_id}; known are 0 to 6 and 255")
        handler = TYPE_ID_HANDLER[type_id]
        handlers.append(None if handler is None else handler.from_binary(descriptor["arguments"]))
    return handlers
