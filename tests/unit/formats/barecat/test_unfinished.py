"""What a killed writer has left is found, and left alone."""

from __future__ import annotations

import fcntl
import os
from typing import TYPE_CHECKING

import pytest

from headrace.errors import ArchiveBusyError, FormatError, UnfinishedError
from headrace.formats.barecat import unfinished
from headrace.formats.barecat.unfinished import await_handover, has_content, is_being_changed, is_locked

if TYPE_CHECKING:
    from pathlib import Path


def test_a_lock_is_looked_at_and_never_made(tmp_path: Path) -> None:
    file = tmp_path / "lock"
    assert not is_locked(file)
    assert not file.exists()
    file.touch()
    assert not is_locked(file)
    with file.open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert is_locked(file)
    os.mkfifo(tmp_path / "pipe")
    assert not is_locked(tmp_path / "pipe")


def test_what_belongs_to_a_process_that_is_alive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(tmp_path / "x.barecat")
    assert not is_being_changed(path)
    await_handover(path)
    lock, making = tmp_path / "x.barecat-shard-00000", tmp_path / ".x.barecat.incomplete"
    for file in (lock, making, tmp_path / "x.barecat-undo", tmp_path / "x.barecat-replace"):
        file.touch()
    with lock.open() as one, making.open() as two:
        fcntl.flock(one, fcntl.LOCK_EX)
        fcntl.flock(two, fcntl.LOCK_EX)
        assert is_being_changed(path)
        monkeypatch.setattr(unfinished, "_HANDOVER_S", 0.05)
        with pytest.raises(ArchiveBusyError, match="is taking this name"):
            await_handover(path)
    with pytest.raises(UnfinishedError, match=r"headrace repair y\.barecat") as caught:
        is_being_changed(path, "y.barecat")
    assert caught.value.left == path + "-undo"
    with pytest.raises(UnfinishedError, match="when its process was killed") as caught:
        await_handover(path)
    assert caught.value.left == path + "-replace"


def test_side_files_of_other_kinds(tmp_path: Path) -> None:
    file = tmp_path / "x-journal"
    assert not has_content(str(file))
    file.touch()
    assert not has_content(str(file))
    file.write_bytes(b"1")
    assert has_content(str(file))
    (tmp_path / "link").symlink_to(file)
    with pytest.raises(FormatError, match="symbolic link"):
        has_content(str(tmp_path / "link"))
    with pytest.raises(IsADirectoryError):
        has_content(str(tmp_path))
