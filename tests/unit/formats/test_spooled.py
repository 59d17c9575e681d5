from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.patchy_file import PatchyStore

from headrace.formats.spans import spooled
from headrace.formats.spans.spooled import spans_between, spool
from headrace.storage import open_stored

if TYPE_CHECKING:
    from pathlib import Path

SIZE = 100_000


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PatchyStore:
    (tmp_path / "x").write_bytes(np.random.default_rng(0).bytes(SIZE))
    monkeypatch.setattr(spooled, "_PIECE_BYTES", 1000)
    return PatchyStore(tmp_path).install(monkeypatch)


def spans(*pairs: tuple[int, int]) -> tuple[Any, Any]:
    table = np.array(pairs, np.uint64).reshape(-1, 2)
    return np.ascontiguousarray(table[:, 0]), np.ascontiguousarray(table[:, 1])


def test_only_what_is_asked_for_is_brought(store: PatchyStore) -> None:
    data = (store.folder / "x").read_bytes()
    found = spool(open_stored(store.url("x")), *spans((0, 10), (500, 3000), (SIZE - 1, 1), (20, 0)))
    assert len(found) == SIZE
    expected = bytearray(SIZE)
    for begin, end in ((0, 10), (500, 3500), (SIZE - 1, SIZE)):
        expected[begin:end] = data[begin:end]
    assert found.tobytes() == bytes(expected)
    assert store.brought_bytes == 3011
    assert store.largest_region <= 1000
    assert store.open_announcements == 0


def test_everything(store: PatchyStore) -> None:
    assert spool(open_stored(store.url("x")), *spans((0, SIZE))).tobytes() == (store.folder / "x").read_bytes()


def test_no_room_is_told(store: PatchyStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(OSError, match=r"no room in .*TMPDIR"):
        spool(open_stored(store.url("x")), *spans((0, SIZE)))
    assert store.open_announcements == 0


@given(
    st.lists(st.tuples(st.integers(0, 2**64 - 1) | st.integers(0, 60), st.integers(0, 2**64 - 1) | st.integers(0, 9)))
)
def test_what_lies_between(pairs: list[tuple[int, int]]) -> None:
    offsets, sizes = spans_between(*spans(*pairs), 50)
    is_between = np.ones(50, bool)
    for begin, size in pairs:
        is_between[begin : begin + size] = False
    found = np.zeros(50, bool)
    for begin, size in zip(offsets.tolist(), sizes.tolist(), strict=True):
        assert size > 0
        assert not found[begin : begin + size].any()
        found[begin : begin + size] = True
    assert np.array_equal(found, is_between)
