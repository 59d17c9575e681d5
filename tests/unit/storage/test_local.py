from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from penstock.storage import map_file

if TYPE_CHECKING:
    from pathlib import Path


def test_maps_the_bytes_read_only(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(bytes(range(256)) * 40)
    mapped = map_file(path)
    assert mapped.tobytes() == path.read_bytes()
    assert not mapped.flags.writeable
    with pytest.raises(ValueError, match="read-only"):
        mapped[0] = 1


def test_an_empty_file_is_an_empty_array(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.touch()
    assert len(map_file(path)) == 0


def test_holds_no_descriptor_and_outlives_the_name(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"abc")
    before = len(os.listdir("/proc/self/fd"))
    maps = [map_file(path) for _ in range(5)]
    # A mapping keeps a descriptor of its own in CPython (mmap duplicates it): one each, not two.
    assert len(os.listdir("/proc/self/fd")) - before <= 5
    path.unlink()
    assert maps[0].tobytes() == b"abc"


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nothing"):
        map_file(tmp_path / "nothing")
