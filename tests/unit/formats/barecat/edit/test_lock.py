"""Locks that keep writers apart."""

from __future__ import annotations

import fcntl
import os
import threading
import time
from typing import TYPE_CHECKING

import pytest

from headrace.errors import ArchiveBusyError
from headrace.formats.barecat.edit.lock import lock_archive, lock_file, lock_shard
from headrace.formats.barecat.names import replace_path

if TYPE_CHECKING:
    from pathlib import Path


def test_one_at_a_time(path: Path) -> None:
    first = lock_shard(str(path), create=True)
    with pytest.raises(ArchiveBusyError, match="somebody else is writing"):
        lock_shard(str(path))
    os.close(first)
    os.close(lock_shard(str(path)))


def test_a_file_that_was_replaced_is_locked_under_its_name(path: Path) -> None:
    old, _ = lock_file(str(path), "busy")
    other = path.with_name("other")
    other.write_bytes(b"new")

    def replace() -> None:
        time.sleep(0.05)
        os.replace(other, path)
        os.close(old)

    thread = threading.Thread(target=replace)
    thread.start()
    fd, is_locked = lock_file(str(path), "busy", wait_s=30)
    thread.join()
    assert is_locked
    assert os.path.samestat(os.fstat(fd), os.stat(path))
    os.close(fd)


def test_file_systems_without_locks(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def flock(fd: int, how: int) -> None:
        raise OSError(37, "no locks")

    monkeypatch.setattr(fcntl, "flock", flock)
    fd, is_locked = lock_file(str(path), "busy")
    assert not is_locked
    os.close(fd)


def test_an_archive_about_to_be_replaced_is_busy(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.formats.barecat.edit.lock.WAIT_S", 0)
    with open(replace_path(str(path)), "wb"):
        pass
    with pytest.raises(ArchiveBusyError, match="taking this name"):
        lock_archive(str(path), create=True)
