"""Pickles of plain values are read; whatever else one names is not."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

from headrace.compat.barecat.io._pickles import load_plain

VALUES: dict[str, Any] = {
    "numbers": np.array([1, 2, 3]),
    "columns": np.arange(6.0).reshape(2, 3).T,
    "text": np.array(["a", "bc"]),
    "bytes": np.array([b"a", b"bc"]),
    "other order": np.arange(3, dtype=">i2"),
    "none": np.zeros((0, 4), np.uint8),
    "scalar": np.float32(3.5),
    "zero dimensions": np.array(7, np.int16),
}


@pytest.mark.parametrize("protocol", range(6))
def test_arrays_of_numbers(protocol: int) -> None:
    stored = pickle.dumps({**VALUES, "rest": (1, {2, 3}, [b"4", 1 + 2j])}, protocol=protocol)
    found, real = load_plain(stored), pickle.loads(stored)
    assert found["rest"] == real["rest"]
    for name in VALUES:
        assert np.array_equal(found[name], real[name]), name
        assert np.asarray(found[name]).dtype == np.asarray(real[name]).dtype, name


class _Calls:
    def __init__(self, *call: Any) -> None:
        self._call = call

    def __reduce__(self) -> Any:
        return self._call


@pytest.mark.parametrize(
    "value",
    [
        np.array([object()], dtype=object),
        np.array([(1, 2.0)], dtype=[("a", "i4"), ("b", "f8")]),
        print,
        _Calls(np.ndarray, ((10,),)),
        _Calls(np.frombuffer, (b"1234", "f4")),
        _Calls(np.dtype, ("O",)),
    ],
    ids=["objects", "columns", "function", "ndarray", "frombuffer", "dtype"],
)
def test_nothing_else(value: Any) -> None:
    with pytest.raises(pickle.UnpicklingError):
        load_plain(pickle.dumps(value))


@pytest.mark.parametrize(
    "state",
    [
        (1, (1000,), np.dtype("f8"), False, b"12345678"),
        (1, (-1,), np.dtype("f8"), False, b""),
        (1, (1,), np.dtype("f8"), False, ["x"]),
        (1, (2**62, 4), np.dtype("f8"), False, b""),
    ],
)
def test_a_state_that_lies(state: Any) -> None:
    rebuild, arguments, _ = np.zeros(1).__reduce__()
    with pytest.raises(pickle.UnpicklingError):
        load_plain(pickle.dumps(_Calls(rebuild, arguments, state)))
