"""Values of any length: JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from headrace.compat.ffcv.fields.bytes import BytesField
from headrace.compat.passed_on import pass_on

if TYPE_CHECKING:
    from headrace.compat.ffcv.fields.base import Field

__all__ = ["ENCODING", "SEPARATOR", "JSONField"]
pass_on(globals(), "BytesField ch json np")

ENCODING = "utf8"
SEPARATOR = "\0"


class JSONField(BytesField):
    """What JSON can hold; batches have its text, and ``unpack`` makes values of it."""

    @staticmethod
    def from_binary(binary: Any) -> Field:
        """There are no arguments."""
        return JSONField()

    def encode(self, destination: Any, field: Any, malloc: Any) -> None:
        """Store the JSON text and a zero byte."""
        content = (json.dumps(field) + SEPARATOR).encode(ENCODING)
        super().encode(destination, np.frombuffer(content, np.uint8), malloc)

    @staticmethod
    def unpack(batch: Any) -> Any:
        """Values from a batch (a list), or from one sample of it."""
        array = batch.numpy() if isinstance(batch, torch.Tensor) else np.asarray(batch)
        if array.ndim == 1:
            return _value_of(array)
        return [_value_of(row) for row in array]


def _value_of(row: Any) -> Any:
    return json.loads(row.tobytes().partition(SEPARATOR.encode(ENCODING))[0].decode(ENCODING))
