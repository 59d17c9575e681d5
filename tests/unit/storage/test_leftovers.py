from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

from headrace.storage import AtomicFile, leftovers, remove_leftovers

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

_WRITER = """
import os, sys
del os.O_TMPFILE  # as on a file system that has no nameless files
from headrace.storage import AtomicFile
file = AtomicFile(sys.argv[1])
file.write([b"half"])
print("written", flush=True)
sys.stdin.read()
"""


def _start_writer(path: Path) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", _WRITER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "written\n"
    return process


def test_what_a_killed_writer_left_goes_with_the_next_one_and_a_living_writer_keeps_its_file(tmp_path: Path) -> None:
    process = _start_writer(tmp_path / "x.tar")
    (left,) = os.listdir(tmp_path)
    assert left.startswith(".x.tar.")
    assert remove_leftovers(tmp_path / "x.tar") == []
    process.send_signal(signal.SIGSTOP)  # it lives, though it does nothing
    assert remove_leftovers(tmp_path) == []
    process.kill()
    process.communicate()
    assert remove_leftovers(tmp_path / "y.tar") == []
    with AtomicFile(tmp_path / "x.tar") as file:
        file.write([b"whole"])
    assert os.listdir(tmp_path) == ["x.tar"]


def test_only_files_of_that_name_and_kind_go(tmp_path: Path) -> None:
    kept = [".x.0123abcd.incomplete", ".x.txt.0123abcd.unfinished", "x.0123abcd.unfinished", ".x.unfinished", "x"]
    for name in (*kept, ".x.0123abcd.unfinished"):
        (tmp_path / name).write_bytes(b"")
    (tmp_path / ".x.0123abce.unfinished").mkdir()
    (tmp_path / ".x.0123abcf.unfinished").symlink_to("x")
    os.mkfifo(tmp_path / ".x.01234567.unfinished")
    assert remove_leftovers(tmp_path / "x") == [str(tmp_path / ".x.0123abcd.unfinished")]
    special = [".x.0123abce.unfinished", ".x.0123abcf.unfinished", ".x.01234567.unfinished"]
    assert sorted(os.listdir(tmp_path)) == sorted([*kept, *special])
    assert remove_leftovers(tmp_path) == [str(tmp_path / ".x.txt.0123abcd.unfinished")]
    assert remove_leftovers(tmp_path / "nowhere" / "x") == []


def test_a_file_that_is_taken_for_a_leftover_before_it_is_locked_is_created_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, removed = fcntl.flock, []

    def late(fd: int, operation: int) -> None:
        if not operation & fcntl.LOCK_NB and not removed:
            removed.extend(remove_leftovers(tmp_path / "x"))
        whole(fd, operation)

    monkeypatch.setattr(leftovers.fcntl, "flock", late)
    monkeypatch.delattr(os, "O_TMPFILE")
    with AtomicFile(tmp_path / "x") as file:
        file.write([b"whole"])
    assert len(removed) == 1
    assert os.listdir(tmp_path) == ["x"]
    assert (tmp_path / "x").read_bytes() == b"whole"


def test_without_locks_nothing_is_removed_and_everything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(fd: int, operation: int) -> None:
        raise OSError(37, "No locks available")

    monkeypatch.setattr(leftovers.fcntl, "flock", none)
    monkeypatch.delattr(os, "O_TMPFILE")
    (tmp_path / ".x.0123abcd.unfinished").write_bytes(b"")
    with AtomicFile(tmp_path / "x") as file:
        file.write([b"whole"])
    assert sorted(os.listdir(tmp_path)) == [".x.0123abcd.unfinished", "x"]


def test_names_of_any_length_have_a_hidden_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "O_TMPFILE")
    for name in ("x" * 255, "ü" * 127, "a\nb"):
        with AtomicFile(tmp_path / name) as file:
            file.write([b"1"])
            (hidden,) = [one for one in os.listdir(tmp_path) if one.endswith(".unfinished")]
            assert len(os.fsencode(hidden)) <= 255
        assert (tmp_path / name).read_bytes() == b"1"
