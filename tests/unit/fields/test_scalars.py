from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from headrace import Float, Int

NOTHING = memoryview(b"")


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        (0, 0),
        (-1, -1),
        (2**63 - 1, 2**63 - 1),
        (-(2**63), -(2**63)),
        (True, 1),
        (np.int8(-5), -5),
        (np.uint64(2**63 - 1), 2**63 - 1),
        (np.array(7), 7),
    ],
)
def test_int_takes_integers(value: Any, stored: int) -> None:
    encoded = Int().encode(value, 0)
    assert encoded == ((stored,), None)
    decoded = Int().decode(encoded.facts, NOTHING)
    assert (decoded, type(decoded)) == (stored, int)


@pytest.mark.parametrize("value", [2**63, -(2**63) - 1, np.uint64(2**63), 10**30])
def test_int_refuses_what_does_not_fit(value: Any) -> None:
    with pytest.raises(ValueError, match="does not fit into 64 bits"):
        Int().encode(value, 0)


@pytest.mark.parametrize("value", [1.0, 1.5, np.float64(2), "3", None, b"1", Fraction(2), np.array([3]), [1]])
def test_int_refuses_what_is_no_integer(value: Any) -> None:
    with pytest.raises(TypeError, match="an Int field takes integers, got"):
        Int().encode(value, 0)


@pytest.mark.parametrize("value", [0.0, -0.0, 1e308, 5e-324, math.inf, -math.inf, 3, True, np.float32(0.1)])
def test_float_takes_numbers(value: Any) -> None:
    (stored,), payload = Float().encode(value, 0)
    assert payload is None
    assert float(value).hex() == Float().decode((stored,), NOTHING).hex()


def test_float_takes_nan() -> None:
    assert math.isnan(Float().decode(Float().encode(math.nan, 0).facts, NOTHING))


@pytest.mark.parametrize("value", ["1.5", b"1.5", bytearray(b"1.5"), None, 1j, [1.0]])
def test_float_refuses_what_is_no_number(value: Any) -> None:
    with pytest.raises(TypeError):
        Float().encode(value, 0)


@pytest.mark.parametrize("field", [Int(), Float()])
def test_scalars_have_no_payload(field: Any) -> None:
    assert not field.has_payload
    assert field.max_size_bytes() == 0
    with pytest.raises(ValueError, match="no stored array"):
        field.view((1,), np.empty(0, np.uint8))
