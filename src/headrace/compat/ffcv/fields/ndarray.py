"""Arrays and tensors of one shape."""

from __future__ import annotations

import json
import math
import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from headrace._native import gather_into
from headrace.compat.ffcv.fields.base import ARG_TYPE, Field
from headrace.compat.ffcv.pipeline.allocation_query import AllocationQuery
from headrace.compat.ffcv.pipeline.operation import Operation
from headrace.compat.ffcv.storage import column_of, locate_bytes
from headrace.compat.passed_on import pass_on
from headrace.fields import dtype_from_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.compat.ffcv.pipeline.state import State

__all__ = ["NDArrayArgsType", "NDArrayDecoder", "NDArrayField", "TorchTensorField"]
pass_on(
    globals(),
    "ARG_TYPE AllocationQuery Callable Compiler Field Operation State TYPE_CHECKING Tuple Type ch json memcpy np "
    "replace warnings",
)

NDArrayArgsType = np.dtype([("shape", "<u8", 32), ("type_length", "<u8")])


class NDArrayDecoder(Operation):
    """Arrays in the dtype in which they are stored."""

    def declare_state_and_memory(self, previous_state: State) -> tuple[State, AllocationQuery]:
        """The field's shape and dtype."""
        shape, dtype = self.field.shape, self.field.dtype
        return replace(previous_state, jit_mode=True, shape=shape, dtype=dtype), AllocationQuery(shape, dtype)

    def generate_code(self) -> Callable[..., Any]:
        """A function that copies a batch by one native call."""

        def decoder(indices: Any, destination: Any, metadata: Any, storage_state: Any) -> Any:
            destination = destination[: len(indices)]
            size = destination[:1].nbytes
            samples = np.asarray(indices, np.int64)
            sizes = np.full(len(samples), size, np.uint64)
            column = column_of(self, metadata)
            base, places = storage_state[0], None if column is None else column.arrays(samples, size)
            if places is None:
                base, places, sizes = locate_bytes(metadata[samples], sizes, indices, storage_state)
            targets = np.arange(len(sizes), dtype=np.uint64) * np.uint64(size)
            gather_into(base, places, sizes, destination.view(np.uint8).reshape(-1), targets)
            return destination

        decoder.is_native = True  # type: ignore[attr-defined]
        return decoder


class NDArrayField(Field):
    """An array of one dtype and shape."""

    def __init__(self, dtype: Any, shape: Any) -> None:
        self.dtype = dtype
        self.shape = shape
        self.element_size = int(dtype.itemsize) * math.prod(int(side) for side in shape)
        if dtype == np.uint16:
            warnings.warn(
                "torch has few operations for uint16; store int16 and reinterpret it later in your pipeline",
                stacklevel=2,
            )

    @property
    def metadata_type(self) -> np.dtype[Any]:
        """A pointer."""
        return np.dtype("<u8")

    @staticmethod
    def from_binary(binary: Any) -> Field:
        """Shape and dtype from the argument bytes."""
        data = np.ascontiguousarray(binary).view("<u1").reshape(-1)
        header = data[: NDArrayArgsType.itemsize].view(NDArrayArgsType)[0]
        length = int(header["type_length"])
        if length > len(data) - NDArrayArgsType.itemsize:
            raise ValueError(f"the dtype of an array field cannot have {length} bytes")
        text = data[NDArrayArgsType.itemsize :][:length].tobytes().decode("ascii")
        described = json.loads(text)
        assert len(described) == 1
        shape = [int(side) for side in header["shape"]]
        while shape and shape[-1] == 0:
            shape.pop()
        return NDArrayField(dtype_from_text(described[0][1]), tuple(shape))

    def to_binary(self) -> Any:
        """Shape and dtype as argument bytes."""
        result = np.zeros(1, ARG_TYPE)[0]
        header = np.zeros(1, NDArrayArgsType)
        shape = np.array(self.shape, "<u8").reshape(-1)
        header["shape"][0][: len(shape)] = shape
        text = np.frombuffer(json.dumps(np.dtype(self.dtype).descr).encode("ascii"), "<u1")
        header["type_length"][0] = len(text)
        data = np.concatenate([header.view("<u1"), text])
        result[0][: len(data)] = data
        return result

    def as_stored(self, value: Any) -> Any:
        """The bytes of an array, whatever its dtype and shape, with those of the field."""
        array = np.ascontiguousarray(value)
        if array.nbytes != self.element_size:
            raise ValueError(
                f"an array of {self.dtype} and shape {tuple(self.shape)} has {self.element_size} bytes, "
                f"got {array.nbytes} ({array.dtype} of shape {array.shape})"
            )
        return array.reshape(-1).view(self.dtype).reshape(self.shape)

    def encode(self, destination: Any, field: Any, malloc: Any) -> None:
        """Store an array."""
        stored = self.as_stored(field).reshape(-1).view("<u1")
        destination[0], data = malloc(self.element_size)
        data[:] = stored

    def get_decoder_class(self) -> Any:
        """NDArrayDecoder."""
        return NDArrayDecoder


class TorchTensorField(NDArrayField):
    """A tensor of one dtype and shape; read back as an array."""

    def __init__(self, dtype: Any, shape: Any) -> None:
        super().__init__(torch.zeros(0, dtype=dtype).numpy().dtype, shape)

    def encode(self, destination: Any, field: Any, malloc: Any) -> None:
        """Store a tensor."""
        super().encode(destination, field.numpy(), malloc)
