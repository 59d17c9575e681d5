"""Pickles of a few bytes, as the drop-in for Barecat reads them: plain values, little memory, nothing changed."""

from __future__ import annotations

import pytest
from tests.attacks.limited import run_limited

READ = """
import sys
from headrace.compat.barecat.io.codecs import DecodedView
try:
    found = DecodedView({"a.pkl": bytes.fromhex(sys.argv[1])})["a.pkl"]
    print(type(found).__name__)
except ValueError as error:
    raise SystemExit(f"not an error of ours: {error!r}")
except Exception as error:
    print(type(error).__name__, str(error)[:200])
"""
_ARRAY = b"cnumpy._core.numeric\n_frombuffer\n(C\x00cnumpy\ndtype\nX\x02\0\0\0u1\x89\x88\x87R"
_PAIR = b"K\x01K\x02\x86"
_DOUBLE = b"".join(b"q%ch%c\x86" % (n, n) for n in range(60))
BOMBS = {
    "a memo of many places": b"\x80\x02]r" + (0x0FFFFFFF).to_bytes(4, "little") + b".",
    "a memo of four billion places": b"\x80\x02]r" + (0xFFFFFFFF).to_bytes(4, "little") + b".",
    "hashes, by copies": b"\x80\x02cbuiltins\nset\n]" + _PAIR + b"2\x86" * 60 + b"a\x85R.",
    "hashes, by references": b"\x80\x02cbuiltins\nset\n](" + _PAIR + _DOUBLE + b"e\x85R.",
    "a message, by copies": b"\x80\x02" + _ARRAY + _PAIR + b"2\x86" * 40 + b"X\x01\0\0\0CtR.",
    "a message, by references": b"\x80\x02" + _ARRAY + _PAIR + _DOUBLE + b"X\x01\0\0\0CtR.",
    "lists in lists": b"\x80\x02](" + b"q\x00" + b"".join(b"]q%c(h%ch%ce" % (n + 1, n, n) for n in range(60)) + b".",
    "a long number": b"\x80\x02\x8b" + (0x7FFFFFFF).to_bytes(4, "little") + b"\x01.",
    "nesting": b"\x80\x02" + b"]" * 20_000 + b"a" * 19_999 + b".",
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb(name: str) -> None:
    printed, peak = run_limited(READ, BOMBS[name].hex(), memory=1 << 30, seconds=20)
    assert printed.startswith("RefusedPickleError" if "memo" not in name else "list")
    assert peak < 300


POLLUTE = """
import pickle
import numpy as np
from headrace.codecs import pickle_values
def state():
    found = {}
    for name, thing in vars(pickle_values).items():
        if getattr(thing, "__module__", None) == pickle_values.__name__:
            found[name] = {key: repr(value) for key, value in vars(thing).items()} if hasattr(thing, "__dict__") else 0
            found[name, "defaults"] = repr(getattr(thing, "__defaults__", None))
    return found
before = state()
for evil in (
    b"\\x80\\x02c_codecs\\nencode\\nN}X\\x0c\\0\\0\\0__defaults__X\\x01\\0\\0\\0xX\\x06\\0\\0\\0latin1\\x86s\\x86b.",
    b"\\x80\\x02cnumpy\\nndarray\\nN}X\\x07\\0\\0\\0__new__cbuiltins\\ncomplex\\ns\\x86b.",
    b"\\x80\\x02cnumpy\\ndtype\\n}X\\x01\\0\\0\\0xK\\x01sb.",
    b"\\x80\\x02]}X\\x01\\0\\0\\0xK\\x01sb.",
    b"\\x80\\x02ccollections\\nOrderedDict\\n)R}X\\x01\\0\\0\\0xK\\x01sb.",
):
    try:
        print(pickle_values.load_values(evil))
    except pickle_values.RefusedPickleError:
        print("refused")
assert state() == before
assert pickle_values.load_values(pickle.dumps(np.arange(3), 2)).tolist() == [0, 1, 2]
"""


def test_no_state_changes_anything_outside_of_the_pickle() -> None:
    printed, _ = run_limited(POLLUTE, seconds=20)
    assert printed.split() == ["refused"] * 5
