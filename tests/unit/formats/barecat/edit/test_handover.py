"""One archive takes the name of another: leftovers, and writers in the way."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

import pytest

import headrace as hr
from headrace.errors import ArchiveBusyError
from headrace.formats.barecat import Archive
from headrace.formats.barecat.archive import new_archive

if TYPE_CHECKING:
    from pathlib import Path


def test_leftovers_are_kept_where_nobody_can_tell_whose_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = [tmp_path / f".x.barecat.0123abcd.incomplete{end}" for end in ("", "-shard-00000", "-journal", "-replace")]
    other = [tmp_path / name for name in (".x.barecat.0123abcd.incomplete.txt", ".y.barecat.0123abcd.incomplete")]
    for file in left + other:
        file.write_bytes(b"x")

    def flock(fd: int, how: int) -> None:
        raise OSError(errno.ENOLCK, "no locks")

    with monkeypatch.context() as patch:
        patch.setattr("fcntl.flock", flock)
        hr.write(tmp_path / "x.barecat", [b"1"], fields={"data": hr.Bytes()})
    assert all(file.exists() for file in left + other)
    hr.write(tmp_path / "x.barecat", [b"2"], fields={"data": hr.Bytes()}, force=True)
    assert sorted(os.listdir(tmp_path)) == sorted(
        [*(file.name for file in other), "x.barecat", "x.barecat-shard-00000"]
    )


def test_an_archive_that_somebody_writes_to_is_not_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.formats.barecat.edit.lock.WAIT_S", 0)
    path = tmp_path / "x.barecat"
    with Archive(path, "x") as writer:
        writer["a"] = b"1"
        with pytest.raises(ArchiveBusyError), new_archive(path):
            pytest.fail("it must be noticed at the beginning")
        writer["b"] = b"2"
    with pytest.raises(ArchiveBusyError), new_archive(path):
        late = Archive(path, "r+")
    late["d"] = b"4"
    late.close()
    assert dict(Archive(path)) == {"a": b"1", "b": b"2", "d": b"4"}
    assert len(list(tmp_path.iterdir())) == 2
