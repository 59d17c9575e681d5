"""MessagePack with arrays, as the package msgpack-numpy writes them.

An array is a map with the keys ``nd`` (true), ``type`` (the dtype), ``kind``, ``shape`` and ``data``, a number of
numpy one with ``nd`` (false), ``type`` and ``data``; the keys are bytes. Arrays of objects, which are pickles inside,
are refused.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from headrace.formats.barecat.decoded import require

__all__ = ["decode_msgpack", "encode_msgpack"]


def encode_msgpack(data: Any) -> bytes:
    """MessagePack of a value that may have arrays in it."""
    packed: bytes = require("msgpack", ".msgpack").packb(data, default=_to_map)
    return packed


def decode_msgpack(data: bytes) -> Any:
    """A value from MessagePack."""
    return require("msgpack", ".msgpack").unpackb(data, object_hook=_from_map, strict_map_key=False)


def _to_map(value: Any) -> Any:
    if isinstance(value, complex) and not isinstance(value, np.generic):
        return {b"complex": True, b"data": repr(value)}
    if isinstance(value, np.ndarray):
        if value.dtype.hasobject:
            raise TypeError("an array of objects cannot be stored as msgpack")
        kind = b"V" if value.dtype.kind == "V" else b""
        described: Any = value.dtype.descr if kind else value.dtype.str
        return {b"nd": True, b"type": described, b"kind": kind, b"shape": value.shape, b"data": value.tobytes()}
    if isinstance(value, np.bool_ | np.number):
        return {b"nd": False, b"type": value.dtype.str, b"data": value.tobytes()}
    raise TypeError(f"{type(value).__name__} cannot be stored as msgpack")


def _from_map(found: dict[Any, Any]) -> Any:
    if b"complex" in found:
        return complex(found[b"data"])
    if b"nd" not in found:
        return found
    if found.get(b"kind") == b"O":
        raise ValueError("an array of objects is a pickle inside, and reading it could run any code")
    described = found[b"type"]
    fields: Any = [tuple(field) for field in described] if isinstance(described, list) else described
    dtype = np.dtype(fields)
    if dtype.hasobject:
        raise ValueError("an array of objects cannot be read from msgpack")
    array = np.frombuffer(found[b"data"], dtype)
    return array.reshape(found[b"shape"]) if found[b"nd"] else array[0]
