"""What a killed writer leaves, and how it is put in order."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from headrace.errors import ArchiveBusyError, UnfinishedError
from headrace.formats.barecat import Archive
from headrace.formats.barecat.edit.recovery import recover
from headrace.formats.barecat.names import undo_path

if TYPE_CHECKING:
    from pathlib import Path


def killed(path: Path) -> None:
    """A process that overwrites in place and is killed before it commits."""
    child = os.fork()
    if child == 0:
        archive = Archive(path, "r+")
        archive.update_file("a", b"XXXXX")
        archive.update_file("a", b"YY")
        archive.editor.shards.flush()
        os._exit(0)
    os.waitpid(child, 0)


@pytest.fixture
def archive(path: Path) -> Path:
    with Archive(path, "x") as archive:
        archive.update({"a": b"first", "b": b"second"})
    return path


def test_what_was_overwritten_comes_back(archive: Path) -> None:
    killed(archive)
    assert os.path.exists(undo_path(str(archive)))
    assert b"YY" in archive.with_name("x.barecat-shard-00000").read_bytes()
    recover(str(archive))
    assert not os.path.exists(undo_path(str(archive)))
    assert dict(Archive(archive)) == {"a": b"first", "b": b"second"}


def test_a_record_that_is_not_complete_was_not_used(archive: Path) -> None:
    killed(archive)
    os.truncate(undo_path(str(archive)), 17)
    recover(str(archive))
    assert not os.path.exists(undo_path(str(archive)))


def test_a_log_of_another_transaction_does_not_count(archive: Path) -> None:
    killed(archive)
    log = archive.with_name("x.barecat-undo").read_bytes()
    recover(str(archive))
    with Archive(archive, "r+") as writer:
        writer.update_file("a", b"later")
    archive.with_name("x.barecat-undo").write_bytes(log)
    with pytest.raises(UnfinishedError, match="headrace repair"):
        Archive(archive)
    with Archive(archive, "r+") as writer:
        assert writer["a"] == b"later"


def test_nothing_is_put_back_while_the_writer_lives(archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.formats.barecat.edit.lock.WAIT_S", 0)
    with Archive(archive, "r+") as writer:
        writer.update_file("a", b"new")
        with pytest.raises(ArchiveBusyError):
            recover(str(archive))
    assert Archive(archive)["a"] == b"new"
