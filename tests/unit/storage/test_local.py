from __future__ import annotations

import gc
import os
from typing import TYPE_CHECKING

import numpy as np
import pytest

from headrace.errors import FormatError
from headrace.storage import check_mapping, map_file, mapping_faults

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


def test_a_file_cut_short_reads_as_zeros_and_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"\x07" * 100_000)
    mapped = map_file(path)
    view = mapped[4:].view("<u4")[3:]
    check_mapping(view, path)
    os.truncate(path, 10_000)
    assert mapped[:10_000].tobytes() == b"\x07" * 10_000
    assert mapping_faults(mapped) == 0
    assert not mapped[12_288:].any()
    assert mapping_faults(mapped) == mapping_faults(view) == (100_000 - 12_288 + 4095) // 4096
    for array in (mapped, view, view[:1].reshape(1, 1)):
        with pytest.raises(FormatError, match=r"became shorter while it was in use.*Replace files by renaming") as e:
            check_mapping(array, path)
        assert e.value.path == str(path)
    assert mapping_faults(map_file(path)) == 0


def test_the_guard_lives_as_long_as_the_last_view(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"\x07" * 100_000)
    last = memoryview(map_file(path)[50_000:])
    gc.collect()
    os.truncate(path, 0)
    assert bytes(last) == bytes(50_000)
    assert mapping_faults(np.frombuffer(last, np.uint8).base.obj) > 0


def test_arrays_that_are_no_mappings_have_no_faults() -> None:
    assert mapping_faults(np.zeros(3)[1:]) == 0
    check_mapping(np.frombuffer(b"abc", np.uint8), "x")


def test_guards_come_and_go(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"\x07" * 5000)
    for _ in range(3):  # more at once than one table of the handler has, and again
        maps = [map_file(path) for _ in range(200)]
        assert sum(int(m[0]) for m in maps) == 1400
    os.truncate(path, 0)
    assert maps[77][-1] == 0
    assert [mapping_faults(m) for m in maps] == [0] * 77 + [1] + [0] * 122
