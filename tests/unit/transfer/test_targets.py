"""Files and streams that a tar or zip goes to."""

from __future__ import annotations

import io
import stat
from typing import TYPE_CHECKING

from headrace.transfer.targets import open_target

if TYPE_CHECKING:
    from pathlib import Path


def test_a_file_has_its_name_when_it_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "x"
    target = open_target(str(path))
    target.file.write(b"abc")
    assert list(tmp_path.glob("x*")) == []
    target.keep()
    assert path.read_bytes() == b"abc"


def test_a_file_that_is_dropped_leaves_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"old")
    target = open_target(str(path))
    target.file.write(b"new")
    target.drop()
    target.drop()
    assert [file.read_bytes() for file in tmp_path.iterdir()] == [b"old"]


def test_a_file_that_is_replaced_passes_its_permissions_on(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"old")
    path.chmod(0o600)
    target = open_target(str(path))
    target.file.write(b"new")
    target.keep()
    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_nothing_goes_to_a_stream_that_was_dropped() -> None:
    stream = io.BytesIO()
    target = open_target(stream)
    target.file.write(b"abc")
    assert target.file.tell() == 3
    target.keep()
    target.drop()
    assert target.file.write(b"def") == 3
    assert stream.getvalue() == b"abc"
