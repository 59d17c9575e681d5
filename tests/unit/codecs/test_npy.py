"""Arrays as numpy saves them."""

from __future__ import annotations

import gc
import io
import sys
import threading
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


@pytest.mark.parametrize("error", [SystemError("odd"), IndexError(), AssertionError("x"), MemoryError()])
def test_whatever_numpy_raises_is_a_value_error(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(np.lib.format, "read_array", fail)
    with pytest.raises(ValueError, match=r"\(.+\); it starts with b.{,4}x93NUMPY.*descr") as caught:
        npy.decode(npy.encode([1]))
    assert caught.value.__cause__ is error


def test_a_member_that_is_damaged_in_its_compression() -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_LZMA) as file:
        file.writestr("x.npy", npy.encode(np.arange(99)))
    data = bytearray(packed.getvalue())
    data[44:60] = b"\xff" * 16
    with pytest.raises(ValueError, match="not arrays"):
        npy.decode_npz(data)


def test_wrong_arguments_stay_type_errors() -> None:
    for decode in (npy.decode, npy.decode_npz):
        with pytest.raises(TypeError):
            decode("text")  # type: ignore[operator]


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


def test_threads_do_not_find_intact_arrays_damaged() -> None:
    """The garbage collector lets another thread in while Python parses a header."""
    array = np.arange(12.0).reshape(3, 4)
    data, problems = npy.encode(array), []
    thresholds, interval_s = gc.get_threshold(), sys.getswitchinterval()

    def decode_many() -> None:
        try:
            for _ in range(600):
                np.testing.assert_array_equal(npy.decode(data), array)
        except BaseException as error:
            problems.append(error)

    def let_others_in(phase: str, info: object) -> None:
        """As the callback of any library."""

    gc.callbacks.append(let_others_in)
    gc.set_threshold(50, 5, 5)
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=decode_many) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        gc.callbacks.remove(let_others_in)
        gc.set_threshold(*thresholds)
        sys.setswitchinterval(interval_s)
    assert problems == []
