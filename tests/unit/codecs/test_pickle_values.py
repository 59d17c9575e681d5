"""Pickles of plain values and arrays are read; whatever else one names or does is refused."""

from __future__ import annotations

import collections
import contextlib
import os
import pickle
import time
from typing import Any

import numpy as np
import pytest

from headrace.codecs import pickle_values
from headrace.codecs.pickle_values import MAX_DEPTH, RefusedPickleError, load_values

ARRAYS: dict[str, Any] = {
    "numbers": np.array([1, 2, 3]),
    "columns": np.arange(6.0).reshape(2, 3).T,
    "text": np.array(["a", "bc"]),
    "bytes": np.array([b"a", b"bc"]),
    "other order": np.arange(3, dtype=">i2"),
    "none": np.zeros((0, 4), np.uint8),
    "scalar": np.float32(3.5),
    "truth": np.bool_(True),
    "zero dimensions": np.array(7, np.int16),
}
SHARED = [1, 2]
PLAIN: dict[str, Any] = {
    "numbers": [0, 1, 255, 256, 65536, -1, 2**31, -(2**63), 2**200, 1.5, float("inf"), 1 + 2j, True, False, None],
    "text": ["", "a", "ü\n\\", "\ud800", "x" * 300],
    "bytes": [b"", b"a", bytes(range(256)), b"x" * 300],
    "nested": {"a": [1, (2, [3, {"b": ()}])], (1, "x"): {1, 2}, 3: frozenset({4, (5, 6)})},
    "tuples": [(), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4)],
    "shared": [SHARED, SHARED, {"again": SHARED}],
    "ordered": collections.OrderedDict(b=1, a=collections.OrderedDict()),
}


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("name", PLAIN)
def test_plain_values(name: str, protocol: int) -> None:
    found = load_values(pickle.dumps(PLAIN[name], protocol))
    assert found == PLAIN[name]
    assert type(found) is type(PLAIN[name])


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("name", ARRAYS)
def test_arrays_of_numbers(name: str, protocol: int) -> None:
    stored = pickle.dumps({"twice": [ARRAYS[name]] * 2}, protocol)
    value = pickle.loads(stored)["twice"][0]  # numpy may turn the order of bytes round
    found: Any = load_values(stored)
    for one in found["twice"]:
        assert type(one) is type(value)
        assert np.array_equal(one, value)
        assert one.dtype == value.dtype


@pytest.mark.parametrize("protocol", range(5))
def test_arrays_can_be_changed(protocol: int) -> None:
    found: Any = load_values(pickle.dumps(np.arange(3), protocol))
    found += 1
    assert found.tolist() == [1, 2, 3]


class Calls:
    def __init__(self, *call: Any) -> None:
        self._call = call

    def __reduce__(self) -> Any:
        return self._call


NAMES: dict[str, tuple[Any, str]] = {
    "a call": (Calls(os.mkdir, ("/tmp/should-never-exist",)), r"names (posix|os)\.mkdir, and reading it could run any"),
    "a function": (print, r"names builtins\.print"),
    "a class": (collections.Counter, r"names collections\.Counter"),
    "objects in an array": (np.array([object()], dtype=object), "names builtins.object|'O8' is not plain"),
    "a structured array": (np.array([(1, 2.0)], dtype=[("a", "i4"), ("b", "f8")]), "'V12' is not plain"),
    "times": (np.array(["2020-01-01"], "M8[D]"), "'M8' is not plain"),
    "memory as it is": (Calls(np.ndarray, ((10,),)), "a call of .*ndarray"),
    "frombuffer": (Calls(np.frombuffer, (b"1234", "f4")), r"names numpy\S*\.frombuffer"),
    "a type of objects": (Calls(np.dtype, ("O",)), "'O' is not plain"),
    "a type": (np.dtype("f4"), "a name or a type"),
    "a type in a list": ([np.dtype("f4")], "a name or a type"),
    "a name in a dict": ({"a": np.ndarray}, "a name or a type"),
    "a name in a tuple": ((np.ndarray,), "a name or a type"),
    "arguments that do not fit": (Calls(complex, ("1",)), "a call of builtins.complex"),
    "text as a number": (Calls(complex, ("1", "2")), "not made of two numbers"),
    "a set of no list": (Calls(set, ("abc",)), "not a list"),
    "a decoder": (Calls(bytes, ("abc", "utf-7")), "latin1"),
}


@pytest.mark.parametrize("name", NAMES)
def test_what_is_named(name: str) -> None:
    value, words = NAMES[name]
    with pytest.raises(RefusedPickleError, match=words):
        load_values(pickle.dumps(value))
    assert not os.path.exists("/tmp/should-never-exist")


STATES: dict[str, Any] = {
    "too few bytes": (1, (1000,), np.dtype("f8"), False, b"12345678"),
    "a negative side": (1, (-1,), np.dtype("f8"), False, b""),
    "no bytes": (1, (1,), np.dtype("f8"), False, ["x"]),
    "an overflow": (1, (2**62, 4), np.dtype("f8"), False, b""),
    "no type": (1, (1,), "f8", False, b"12345678"),
    "no shape": (1, 1, np.dtype("f8"), False, b"12345678"),
    "too short": (1, (1,), np.dtype("f8")),
    "numbers without bytes": (1, (2**40,), np.dtype("S0"), False, b""),
}


@pytest.mark.parametrize("name", STATES)
def test_a_state_that_lies(name: str) -> None:
    rebuild, arguments, _ = np.zeros(1).__reduce__()
    with pytest.raises(RefusedPickleError):
        load_values(pickle.dumps(Calls(rebuild, arguments, STATES[name])))


def deep(open_: bytes, close: bytes, count: int) -> bytes:
    return b"\x80\x04" + open_ * count + close * (count - 1) + b"."


HOSTILE: dict[str, tuple[bytes, str]] = {
    "nothing": (b"", "damaged"),
    "an end without a value": (b".", "0 values"),
    "no end": (b"}", "damaged"),
    "two values": (b"}}.", "2 values"),
    "an unknown protocol": (b"\x80\x06}.", "protocol 6"),
    "an unknown instruction": (b"\xff.", "damaged"),
    "a huge text": (b"X\xff\xff\xff\xffabc.", "damaged"),
    "a larger text": (b"\x8d" + b"\xff" * 8 + b".", "damaged"),
    "huge bytes": (b"\x8e" + b"\xff" * 7 + b"\x7f.", "damaged"),
    "a huge bytearray": (b"\x96" + b"\xff" * 7 + b"\x7f.", "damaged"),
    "a number of many digits": (b"L" + b"9" * 100_000 + b"L\n.", "damaged"),
    "a memo of four billion": (b"r\xff\xff\xff\xff.", "missing"),
    "a value that was never stored": (b"h\x07.", "value 7, which does not exist"),
    "marks": (b"(" * 1000 + b".", "0 values"),
    "items without a mark": (b"]e.", "no beginning"),
    "an append to nothing": (b"K\x01a.", "missing"),
    "an append to a number": (b"K\x01K\x02a.", "items of a list for a int"),
    "a value from below a mark": (b"K\x01(a.", "missing"),
    "a key without a value": (b"}(K\x01u.", "has no value"),
    "the same key twice": (b"}(K\x01K\x02K\x01K\x03u.", "twice"),
    "a list as a key": (b"}]K\x01s.", "cannot be a key"),
    "a list in a key": (b"}]\x85K\x01s.", "unhashable"),
    "a list as a member": (b"\x8f(]\x90.", "cannot be a key"),
    "a list that contains itself": (b"]\x94h\x00a.", "contain itself"),
    "a list that grows later": (b"]\x94]h\x00ah\x00K\x01a.", "contain itself"),
    "lists too deep": (deep(b"]", b"a", MAX_DEPTH + 1), "nested more than 1000 deep"),
    "dicts too deep": (b"}K\x01" * MAX_DEPTH + b"}" + b"s" * MAX_DEPTH + b".", "nested more than 1000 deep"),
    "tuples too deep": (b")" + b"\x85" * (MAX_DEPTH + 1) + b".", "nested more than 1000 deep"),
    "a persistent id": (b"Pid\n.", "PERSID"),
    "another persistent id": (b"K\x00Q.", "BINPERSID"),
    "an extension": (b"\x82\x01.", "EXT1"),
    "an instance": (b"(ios\nsystem\n.", "INST"),
    "an object": (b"(cos\nsystem\no.", r"names os\.system"),
    "a new object": (b"cbuiltins\nset\n)\x81.", "NEWOBJ"),
    "a buffer": (b"\x97.", "NEXT_BUFFER"),
    "a name on the stack": (b"\x8c\x02os\x8c\x06system\x93.", r"names os\.system"),
    "a name of numbers": (b"K\x01K\x02\x93.", "not text"),
    "a call of a number": (b"K\x01)R.", "a call of 1"),
    "a call without arguments": (b"cbuiltins\nset\nK\x01R.", "a call of"),
    "a state of a number": (b"K\x01)b.", "a state"),
    "a wrong escape": (b"S'\\q'\n.", "damaged"),
    "old bytes": (b"U\x01\xff.", "not ASCII"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_bytes(name: str) -> None:
    data, words = HOSTILE[name]
    with pytest.raises(RefusedPickleError, match=words):
        load_values(data)


def test_values_as_deep_as_allowed() -> None:
    found = load_values(deep(b"]", b"a", MAX_DEPTH))
    for _ in range(MAX_DEPTH - 1):
        assert isinstance(found, list)
        (found,) = found
    assert found == []


def doubled(times: int) -> bytes:
    """A tuple of two that are the same tuple of two, and so on."""
    return b"K\x00" + b"".join(b"q%ch%c\x86" % (n, n) for n in range(times))


COSTLY: dict[str, tuple[bytes, str]] = {
    "a value of two to the hundred": (doubled(100) + b".", "repeated so often"),
    "a key of a million values": (b"}" + doubled(20) + b"K\x01s.", "too large to be a key"),
    "a shape of a million values": (
        b"cnumpy._core.numeric\n_frombuffer\n(C\x00cnumpy\ndtype\nX\x02\0\0\0u1\x89\x88\x87R"
        + doubled(20)
        + b"X\x01\0\0\0CtR.",
        "a side of an array",
    ),
    "a shape of many sides": (
        b"cnumpy._core.numeric\n_frombuffer\n(C\x00cnumpy\ndtype\nX\x02\0\0\0u1\x89\x88\x87R("
        + b"\x8a\xff" * 1
        + b"\x7f" * 255
        + b"t"
        + b"X\x01\0\0\0CtR.",
        "a side of an array",
    ),
    "a call of a million values": (doubled(20) + b")R.", "a call of a tuple"),
    "the same large key again and again": (
        b"\x8f(" + doubled(13) + b"q\xfe" + b"h\xfe" * 5000 + b"\x90.",
        "too large|same hash",
    ),
    "keys with one hash": (
        b"\x8f(" + b"".join(b"\x8a\x0a" + (k * (2**61 - 1)).to_bytes(10, "little") for k in range(1000)) + b"\x90.",
        "more than 100 keys have the same hash",
    ),
    "empty lists": (b"(" + b"]" * 50_000 + b"l.", "far more memory"),
    "a memo of the same value": (b"N" + b"\x94" * 600_000 + b".", "far more memory"),
}


@pytest.mark.parametrize("name", COSTLY)
def test_what_would_cost_far_more_than_its_size(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pickle_values, "_LEAST_MEMORY", 1 << 20)
    data, words = COSTLY[name]
    start = time.monotonic()
    with pytest.raises(RefusedPickleError, match=words):
        load_values(data)
    assert time.monotonic() - start < 20


def test_references_as_honest_programs_have_them() -> None:
    shared = list(range(1000))
    assert load_values(pickle.dumps([shared] * 1000)) == [shared] * 1000
    keys = {(i, i / 2, 1j * i): frozenset([i, (i, "x")]) for i in range(5000)}
    assert load_values(pickle.dumps(keys)) == keys
    empty: list[list[object]] = [[] for _ in range(100_000)]
    assert load_values(pickle.dumps(empty)) == empty


def test_bytes_that_are_used_for_many_arrays() -> None:
    data = bytes(100_000)
    rebuild, arguments, state = np.frombuffer(data, np.uint8).__reduce__()
    one = Calls(rebuild, arguments, (*state[:4], data))  # type: ignore[index]
    assert isinstance(load_values(pickle.dumps(one)), np.ndarray)
    copies = [Calls(rebuild, arguments, (*state[:4], data)) for _ in range(50)]  # type: ignore[index]
    with pytest.raises(RefusedPickleError, match="more bytes than the pickle"):
        load_values(pickle.dumps(copies))
    text = "x" * 100_000
    with pytest.raises(RefusedPickleError, match="more bytes than the pickle"):
        load_values(pickle.dumps([Calls(__import__("_codecs").encode, (text, "latin1")) for _ in range(50)]))


def test_every_damaged_pickle_is_refused_or_read() -> None:
    stored = pickle.dumps({**PLAIN, **ARRAYS}, 4)
    rng = np.random.default_rng(7)
    for _ in range(1500):
        data = bytearray(stored[: int(rng.integers(1, len(stored) + 1))])
        for _ in range(int(rng.integers(0, 4))):
            data[int(rng.integers(0, len(data)))] = int(rng.integers(0, 256))
        with contextlib.suppress(RefusedPickleError):
            load_values(bytes(data))
