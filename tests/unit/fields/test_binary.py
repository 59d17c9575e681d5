from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from headrace import Bytes, Json, Text


def round_trip(field: Any, value: Any) -> Any:
    encoded = field.encode(value, 0)
    assert type(encoded.payload) is bytes
    assert encoded.facts == ()
    return field.decode((), memoryview(encoded.payload))


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"abc",
        bytearray(b"abc"),
        memoryview(b"abc"),
        np.frombuffer(b"abc", np.uint8),
        np.arange(9, dtype="u1")[::2],
    ],
)
def test_bytes_takes_any_run_of_bytes(value: Any) -> None:
    found = round_trip(Bytes(), value)
    assert found == bytes(value)
    assert type(found) is bytes


@pytest.mark.parametrize("value", ["text", 3, None, [1, 2], np.zeros(3, np.int8), np.zeros((2, 2), np.uint8)])
def test_bytes_refuses_the_rest(value: Any) -> None:
    with pytest.raises(TypeError, match="a Bytes field takes bytes or a 1-D uint8 array, got"):
        Bytes().encode(value, 0)


@pytest.mark.parametrize("value", ["", "abc", "täxt", "中文 🜨", "nul \0 inside", "\ufeff"])
def test_text_round_trip(value: str) -> None:
    assert round_trip(Text(), value) == value


def test_text_is_stored_as_utf8() -> None:
    assert Text().encode("ü", 0).payload == b"\xc3\xbc"


@pytest.mark.parametrize("value", [b"bytes", 3, None, np.array(["x"])])
def test_text_refuses_the_rest(value: Any) -> None:
    with pytest.raises(TypeError, match="a Text field takes str"):
        Text().encode(value, 0)


def test_text_refuses_half_of_a_character() -> None:
    with pytest.raises(UnicodeEncodeError):
        Text().encode("\ud800", 0)


def test_damaged_text_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="utf-8"):
        Text().decode((), memoryview(b"\xff\xfe"))


@pytest.mark.parametrize(
    "value", [None, True, 0, -1.5, "ü\0", [], {}, {"a": [1, {"b": None}]}, math.inf, [[[]]], 10**30]
)
def test_json_round_trip(value: Any) -> None:
    assert round_trip(Json(), value) == value


def test_json_is_stored_as_ffcv_does() -> None:
    assert Json().encode({"k": "ü"}, 0).payload == b'{"k": "\\u00fc"}\0'


def test_json_after_the_nul_does_not_count() -> None:
    assert Json().decode((), memoryview(b"[1]\0rubbish")) == [1]


@pytest.mark.parametrize("value", [b"bytes", {1, 2}, object(), np.zeros(2)])
def test_json_refuses_what_json_cannot_say(value: Any) -> None:
    with pytest.raises(TypeError):
        Json().encode(value, 0)


@pytest.mark.parametrize("field", [Bytes(), Json(), Text()])
def test_any_length_is_possible_and_a_view_is_the_bytes(field: Any) -> None:
    assert field.has_payload
    assert field.max_size_bytes() is None
    stored = np.arange(5, dtype=np.uint8)
    assert field.view((), stored) is stored
