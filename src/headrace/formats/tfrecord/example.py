"""tf.train.Examples, made by hand: each field of the message is a tag, a length and the bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from headrace import _native
from headrace.fields import Float, Int, NDArray
from headrace.formats.tfrecord.features import ByteLists
from headrace.formats.tfrecord.wire import FIRST, SECOND, THIRD, bytes_list, message, varint
from headrace.formats.values import encode_value

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.types import Field

__all__ = ["encode_example", "encode_feature", "key_of"]


def encode_feature(field: Field, value: Any, index: int) -> bytes:
    """The value of a field as a Feature: ints and float32 as numbers, everything else as the bytes of a file."""
    if isinstance(field, ByteLists):
        return message(FIRST, field.encode(value, index).payload or b"")
    if isinstance(field, Int):
        number = np.array(field.encode(value, index).facts, np.int64)
        return message(THIRD, message(FIRST, _native.pack_tf_ints(number)))
    if isinstance(field, Float):
        return message(SECOND, message(FIRST, _float32(field.encode(value, index).facts[0])))
    if isinstance(field, NDArray) and field.dtype in (np.int64, np.float32):
        payload = field.encode(value, index).payload or b""
        if field.dtype == np.float32:
            return message(SECOND, message(FIRST, payload))
        return message(THIRD, message(FIRST, _native.pack_tf_ints(np.frombuffer(payload, np.int64))))
    return message(FIRST, bytes_list([encode_value(field, value, index)[1]]))


def _float32(value: float) -> bytes:
    with np.errstate(over="ignore"):
        rounded = np.array(value, "<f4")
    if np.isinf(rounded) and np.isfinite(value):
        raise ValueError(f"{value!r} is too large for a float of 32 bits, and TFRecord files hold no others")
    return rounded.tobytes()


def key_of(name: str) -> bytes:
    """The name of a feature as an entry of the map begins with it."""
    return message(FIRST, name.encode())


def encode_example(keys: Sequence[bytes], features: Sequence[bytes]) -> bytes:
    """An Example of Features, each with its key as ``key_of`` makes it."""
    parts: list[bytes] = []
    total = 0
    for key, feature in zip(keys, features, strict=True):
        size = varint(len(feature))
        entry = len(key) + len(SECOND) + len(size) + len(feature)
        head = FIRST + varint(entry)
        parts += (head, key, SECOND, size, feature)
        total += len(head) + entry
    return b"".join((FIRST, varint(total), *parts))
