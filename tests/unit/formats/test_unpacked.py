"""Compressed files that are unpacked once."""

from __future__ import annotations

import errno
import gzip
import os
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from headrace.errors import FormatError
from headrace.formats.spans import unpack, unpacked

if TYPE_CHECKING:
    from pathlib import Path


def test_members_padding_and_large_pieces(tmp_path: Path) -> None:
    path = tmp_path / "x.gz"
    large = bytes(5 << 20)
    path.write_bytes(gzip.compress(b"one") + bytes(7) + gzip.compress(large) + gzip.compress(b"") + bytes(100_000))
    file = unpack(path, "gzip")
    assert file.path == str(path)
    assert file.mapped.tobytes() == b"one" + large
    assert file.read(np.array([1], np.uint64), np.array([2], np.uint64)) == [b"ne"]
    assert file.reading == "from the mapped file"
    assert os.listdir(tmp_path) == ["x.gz"]


def test_zstd(tmp_path: Path) -> None:
    zstandard = pytest.importorskip("zstandard")
    path = tmp_path / "x.zst"
    path.write_bytes(zstandard.compress(b"one") + zstandard.compress(b"two"))
    assert unpack(path, "zstd").mapped.tobytes() == b"onetwo"
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(FormatError, match="cannot be unpacked"):
        unpack(path, "zstd")


def test_a_bomb(tmp_path: Path) -> None:
    path = tmp_path / "x.gz"
    path.write_bytes(gzip.compress(bytes(1 << 20)))
    with pytest.raises(FormatError, match=r"take more than 1,?000,?000 bytes"):
        unpack(path, "gzip", max_bytes=1_000_000)


@pytest.mark.parametrize("damage", [lambda d: d[:-5], lambda d: d[:40], lambda d: b"no" + d, lambda d: d + b"more"])
def test_damage(tmp_path: Path, damage: Any) -> None:
    path = tmp_path / "x.gz"
    path.write_bytes(damage(gzip.compress(os.urandom(100))))
    with pytest.raises(FormatError, match="cannot be unpacked"):
        unpack(path, "gzip")


def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.gz"
    path.write_bytes(gzip.compress(b"abc"))

    def refuse(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(unpacked, "_copy", refuse)
    with pytest.raises(OSError, match="TMPDIR") as error:
        unpack(path, "gzip")
    assert error.value.errno == errno.ENOSPC
