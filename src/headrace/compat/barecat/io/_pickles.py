"""Plain values and arrays of numbers from a pickle, without running what it names.

numpy's own functions for rebuilding arrays trust their input. The names that stand for them in a pickle lead here
instead, to functions that check sizes and types and know no objects inside of arrays.
"""

from __future__ import annotations

import io
import math
import pickle
from typing import Any

import numpy as np

__all__ = ["load_plain"]

_PLAIN = {"complex": complex, "frozenset": frozenset, "set": set}
_KINDS = frozenset("biufcSU")


class _Type:
    """Stands for a dtype while it is put together."""

    def __init__(self, name: str, align: Any = False, copy: Any = True) -> None:
        self.dtype = np.dtype(str(name))
        if self.dtype.kind not in _KINDS:
            raise pickle.UnpicklingError(f"an array of type {name!r} is not plain numbers or text")

    def __setstate__(self, state: Any) -> None:
        order = state[1]
        if order not in ("<", ">", "|", "=") or state[2:5] != (None, None, None):
            raise pickle.UnpicklingError("the type of an array is not plain numbers or text")
        self.dtype = self.dtype.newbyteorder(order)


class _ArrayName:
    """Stands for ``numpy.ndarray``, which nothing may call: that would show memory as it is."""

    def __new__(cls, *args: Any) -> _ArrayName:
        raise pickle.UnpicklingError("this is not how a plain array begins")


class _Array(np.ndarray[Any, Any]):
    """An array whose state is checked before it is taken on."""

    def __setstate__(self, state: Any) -> None:
        _, shape, kind, is_fortran, data = state
        if not isinstance(kind, _Type) or not isinstance(data, bytes):
            raise pickle.UnpicklingError("this is not the state of a plain array")
        _check_size(shape, kind.dtype, data)
        super().__setstate__((1, shape, kind.dtype, bool(is_fortran), data))  # type: ignore[arg-type]  # wants an int


def _check_size(shape: Any, dtype: np.dtype[Any], data: bytes | bytearray) -> None:
    if not isinstance(shape, tuple) or any(not isinstance(side, int) or side < 0 for side in shape):
        raise pickle.UnpicklingError(f"an array cannot have the shape {shape!r}")
    if math.prod(shape) * dtype.itemsize != len(data):
        raise pickle.UnpicklingError(f"an array of shape {shape} and type {dtype} has {len(data)} bytes")


def _reconstruct(kind: Any, shape: Any, code: Any) -> _Array:
    if kind is not _ArrayName or shape != (0,):
        raise pickle.UnpicklingError("this is not how a plain array begins")
    return np.ndarray.__new__(_Array, (0,), np.uint8)


def _from_buffer(data: Any, kind: Any, shape: Any, order: Any) -> Any:
    if not isinstance(kind, _Type) or not isinstance(data, bytes | bytearray) or order not in ("C", "F"):
        raise pickle.UnpicklingError("this is not the state of a plain array")
    _check_size(shape, kind.dtype, data)
    return np.frombuffer(data, kind.dtype).reshape(shape, order=order)


def _encode(text: Any, encoding: Any) -> bytes:
    if not isinstance(text, str) or encoding != "latin1":
        raise pickle.UnpicklingError("this is not how old pickles store bytes")
    return text.encode("latin1")


def _scalar(kind: Any, data: Any) -> Any:
    if not isinstance(kind, _Type) or not isinstance(data, bytes) or len(data) != kind.dtype.itemsize:
        raise pickle.UnpicklingError("this is not a plain number")
    return np.frombuffer(data, kind.dtype)[0]


_STAND_INS: dict[tuple[str, str], Any] = {
    ("numpy", "ndarray"): _ArrayName,
    ("numpy", "dtype"): _Type,
    ("_codecs", "encode"): _encode,
    ("__builtin__", "bytes"): lambda: b"",  # the only bytes that old pickles name
}
for _core in ("numpy.core", "numpy._core"):
    _STAND_INS[f"{_core}.multiarray", "_reconstruct"] = _reconstruct
    _STAND_INS[f"{_core}.multiarray", "scalar"] = _scalar
    _STAND_INS[f"{_core}.numeric", "_frombuffer"] = _from_buffer


class _PlainUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if module in ("builtins", "__builtin__") and name in _PLAIN:
            return _PLAIN[name]
        if (module, name) in _STAND_INS:
            return _STAND_INS[module, name]
        raise pickle.UnpicklingError(
            f"this pickle names {module}.{name}, and reading it could run any code; if you trust the archive, use "
            "DecodedView(store, allow_pickle=True) or set HEADRACE_ALLOW_PICKLE=1"
        )


def load_plain(data: bytes) -> Any:
    """A value made of numbers, text, bytes, lists, tuples, dicts, sets and arrays of numbers.

    Raises:
        pickle.UnpicklingError: the pickle names anything else.
    """
    return _PlainUnpickler(io.BytesIO(data)).load()
