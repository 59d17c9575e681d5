"""Arrays as numpy saves them: ``.npy`` and ``.npz``. What numpy would pickle is refused both ways."""

from __future__ import annotations

import contextlib
import io
import zipfile
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from headrace.progress import format_count

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.types import Buffer

__all__ = ["decode", "decode_npz", "encode", "encode_npz"]

_MAX_UNPACKED = 4 << 30
_SHOWN_BYTES = 100
_TRIES = 20


def encode(value: npt.ArrayLike) -> bytes:
    """An array as a .npy file.

    Example:
        >>> decode(encode([1, 2])).tolist()
        [1, 2]
    """
    out = io.BytesIO()
    np.save(out, _plain(value), allow_pickle=False)
    return out.getvalue()


def decode(data: Buffer) -> npt.NDArray[Any]:
    """The array of a .npy file; ValueError when it is damaged, or holds pickles."""
    try:
        return _read(data)
    except Exception as error:  # a header is Python text, and what goes wrong with it depends on numpy and on Python
        start = bytes(memoryview(data)[:_SHOWN_BYTES]).rstrip()
        is_inner = isinstance(error, SystemError)  # its text speaks of Python's insides: 3.12 and NUL in a header
        problem = "the header cannot be read" if is_inner else str(error) or type(error).__name__
        raise ValueError(f"not an array that numpy has saved ({problem}); it starts with {start!r}") from error


def _read(data: Buffer) -> npt.NDArray[Any]:
    """Numpy gives the header to Python's parser, which until 3.12 counts its depth for all threads together.

    When another thread parses at the same moment, it may take that for an error of its own (SystemError), and all is
    well the next time.
    """
    for _ in range(_TRIES):
        with contextlib.suppress(SystemError):
            return _read_once(data)
    return _read_once(data)


def _read_once(data: Buffer) -> npt.NDArray[Any]:
    array: npt.NDArray[Any] = np.lib.format.read_array(io.BytesIO(data), allow_pickle=False)
    return array


def encode_npz(arrays: Mapping[str, npt.ArrayLike]) -> bytes:
    """Arrays by name as a .npz file.

    Example:
        >>> decode_npz(encode_npz({"x": [1, 2]}))["x"].tolist()
        [1, 2]
    """
    out = io.BytesIO()
    plain: dict[str, Any] = {name: _plain(value) for name, value in arrays.items()}
    np.savez(out, **plain)
    return out.getvalue()


def decode_npz(data: Buffer) -> dict[str, npt.NDArray[Any]]:
    """The arrays of a .npz file by name; ValueError when it is damaged, holds pickles, or unpacks to too much."""
    stream = io.BytesIO(data)
    try:
        with zipfile.ZipFile(stream) as file:
            size = sum(member.file_size for member in file.infolist())
            if size > _MAX_UNPACKED:
                raise ValueError(f"it unpacks to {format_count(size, 'byte')}, more than {_MAX_UNPACKED}")
            return {member.removesuffix(".npy"): decode(file.read(member)) for member in file.namelist()}
    except ValueError:
        raise
    except Exception as error:  # the decompressors and zipfile each have errors of their own
        raise ValueError(f"not arrays that numpy has saved ({error})") from error


def _plain(value: npt.ArrayLike) -> npt.NDArray[Any]:
    array = np.asanyarray(value)
    if array.dtype.hasobject:
        raise ValueError("the array holds Python objects, which only a pickle could store; make it numbers or text")
    return array
