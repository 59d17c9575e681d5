"""Small things that programs import from here."""

from __future__ import annotations

import ctypes
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace.compat.passed_on import pass_on

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = [
    "align_to_page",
    "cast_int_to_byte_ptr",
    "chunks",
    "decode_null_terminated_string",
    "is_power_of_2",
    "s_print",
    "s_print_lock",
]
pass_on(globals(), "Lock intrinsic np types")

s_print_lock = Lock()


def s_print(*a: Any, **b: Any) -> None:
    """Print, one thread at a time."""
    with s_print_lock:
        print(*a, **b)


def chunks(lst: Any, n: int) -> Iterator[Any]:
    """Slices of ``n`` items, one after the other."""
    for start in range(0, len(lst), n):
        yield lst[start : start + n]


def is_power_of_2(n: int) -> bool:
    """Whether n is 1, 2, 4 and so on."""
    return n != 0 and n & (n - 1) == 0


def align_to_page(ptr: int, page_size: int) -> int:
    """The next multiple of page_size."""
    return -(-ptr // page_size) * page_size


def decode_null_terminated_string(bytes: Any) -> str:
    """ASCII text up to the first zero byte."""
    return np.asarray(bytes, np.uint8).tobytes().partition(b"\0")[0].decode("ascii")


def cast_int_to_byte_ptr(value: int) -> Any:
    """An address as a pointer to bytes."""
    return ctypes.cast(int(value), ctypes.POINTER(ctypes.c_uint8))
