"""Arrays as numpy saves them."""

from __future__ import annotations

import io
import zipfile

import numpy as np
import pytest

from headrace.codecs import npy


def header(text: bytes) -> bytes:
    return b"\x93NUMPY\x01\x00v\x00" + text.ljust(117) + b"\n"


@pytest.mark.parametrize("array", [np.arange(6).reshape(2, 3), np.zeros(0), np.float32(3), np.array(["a", "bc"])])
def test_round_trip(array: np.ndarray) -> None:
    found = npy.decode(npy.encode(array))
    np.testing.assert_array_equal(found, array)
    assert found.dtype == np.asarray(array).dtype
    np.testing.assert_array_equal(npy.decode_npz(npy.encode_npz({"x": array}))["x"], array)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"no array",
        b"\x93NUMPY\x01\x00v\x00{",
        header(b"{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000000,), }"),
        header(b"{'descr': '<f8', 'fortran_order': False, 'shape': ((((("),
        header(b"{'descr': 'x', 'fortran_order': False, 'shape': (1,), }"),
        header(b"{'descr': '|O', 'fortran_order': False, 'shape': (1,), }") + b"\x80\x04N.",
        npy.encode(np.arange(9))[:-1],
    ],
)
def test_what_is_no_array(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        npy.decode(data)
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as file:
        file.writestr("x.npy", data)
    with pytest.raises(ValueError, match=r"."):
        npy.decode_npz(packed.getvalue())


def test_a_zip_that_is_none() -> None:
    with pytest.raises(ValueError, match="not arrays"):
        npy.decode_npz(b"PK\x03\x04")


def test_no_bomb(monkeypatch: pytest.MonkeyPatch) -> None:
    data = npy.encode_npz({"x": np.zeros(1000)})
    monkeypatch.setattr(npy, "_MAX_UNPACKED", 7999)
    with pytest.raises(ValueError, match="unpacks to"):
        npy.decode_npz(data)


def test_objects_are_not_pickled() -> None:
    for write in (npy.encode, lambda value: npy.encode_npz({"x": value})):
        with pytest.raises(ValueError, match="Python objects"):
            write(np.array([{}], object))
