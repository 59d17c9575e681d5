"""A file that is replaced is there, old or new and whole, whatever happens."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, Any

import pytest

from headrace.cli.main import main
from headrace.formats.barecat import Archive
from headrace.storage import FolderWriter, new_file
from headrace.transfer import extract

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

OLD = "the good old version"
VERBS: dict[str, list[str]] = {
    "sync": ["sync", "x.barecat::", "folder"],
    "extract": ["extract", "x.barecat", "-C", "folder", "--force"],
    "convert": ["convert", "x.barecat", "folder", "--force"],
}


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's file; the archive has a newer one, with a byte that flipped at its end."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(extract, "LARGE_BYTES", 5000)  # larger ones go piece by piece
    monkeypatch.setattr(extract, "_PIECE", 1000)
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "thesis.txt").write_text(OLD)
    return tmp_path / "folder" / "thesis.txt"


def _make_archive(size: int, *, is_damaged: bool) -> None:
    with Archive("x.barecat", "x") as archive:
        archive["thesis.txt"] = b"n" * size
    if is_damaged:
        with open("x.barecat-shard-00000", "r+b") as shard:
            shard.seek(size - 1)
            shard.write(b"?")


@pytest.mark.parametrize("size", [1000, 10_000])
@pytest.mark.parametrize("verb", list(VERBS))
def test_a_damaged_file_does_not_replace_a_good_one(mine: Path, verb: str, size: int) -> None:
    _make_archive(size, is_damaged=True)
    assert main(VERBS[verb]) == 2
    assert mine.read_text() == OLD
    assert os.listdir(mine.parent) == ["thesis.txt"]


@pytest.mark.parametrize("verb", list(VERBS))
def test_a_full_disk_keeps_the_old_file_and_names_it(
    mine: Path, verb: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _make_archive(10_000, is_damaged=False)
    whole = os.write

    def full(fd: int, data: Any) -> int:
        if len(data) == 1000 and os.fstat(fd).st_size >= 3000:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return whole(fd, data)

    monkeypatch.setattr(os, "write", full)
    assert main(VERBS[verb]) == 2
    monkeypatch.undo()
    problem = capsys.readouterr().err
    assert "No space left on device; this file was not written" in problem
    assert "folder/thesis.txt" in problem
    assert mine.read_text() == OLD
    assert os.listdir(mine.parent) == ["thesis.txt"]


def test_a_table_is_replaced_when_it_is_complete(mine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _make_archive(10, is_damaged=False)

    def full(*args: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(os, "pwritev", full)
        assert main(["index", "x.barecat", "--export", str(mine)]) == 2
    assert mine.read_text() == OLD
    assert main(["index", "x.barecat", "--export", str(mine), "-q"]) == 0
    assert "thesis.txt" in mine.read_text()
    assert main(["index", "x.barecat", "--export", "/dev/null", "-q"]) == 0


@pytest.mark.parametrize("is_nameless", [True, False])
def test_no_moment_shows_half_a_file_and_an_interrupt_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_nameless: bool
) -> None:
    if not is_nameless:
        monkeypatch.delattr(os, "O_TMPFILE")
    path = tmp_path / "x"
    path.write_text(OLD)

    def pieces() -> Iterator[bytes]:
        yield b"new "
        assert path.read_text() == OLD
        assert not (tmp_path / "y").exists()
        raise KeyboardInterrupt

    with FolderWriter(tmp_path) as writer:
        for name in ("x", "y"):
            with pytest.raises(KeyboardInterrupt):
                writer.write(name, pieces(), replace=True)
        assert os.listdir(tmp_path) == ["x"]
        assert path.read_text() == OLD


def test_the_error_counts_what_is_complete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with FolderWriter(tmp_path) as writer:
        writer.write("1", [b"1"])
        writer.write("2", [b"2"])

        def full(*args: object, **options: object) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        monkeypatch.setattr(os, "write", full)
        with pytest.raises(OSError, match=r"2 files were written before it and are complete.*/3'"):
            writer.write("3", [b"3"])
        monkeypatch.setattr(new_file.os, "open", full)
        with pytest.raises(OSError, match=r"2 files were written before it and are complete.*/4'"):
            writer.write("4", [b"4"])
    monkeypatch.undo()
    assert sorted(os.listdir(tmp_path)) == ["1", "2"]


def test_a_private_file_stays_private_while_and_after_it_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"old")
    (tmp_path / "x").chmod(0o600)
    (tmp_path / "y").write_bytes(b"old")
    (tmp_path / "y").chmod(0o600)
    with FolderWriter(tmp_path) as writer:
        writer.write("x", [b"new"], replace=True)
        writer.write("y", [b"new"], replace=True, mode=0o640, mtime_ns=10**18)
    assert (tmp_path / "x").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "y").stat().st_mode & 0o777 == 0o640
    assert (tmp_path / "y").stat().st_mtime_ns == 10**18


def test_leftovers_in_a_folder_go_when_something_is_written_there(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / ".x.0123abcd.unfinished").write_bytes(b"")
    (tmp_path / "a" / ".y.0123abcd.unfinished").write_bytes(b"")
    with FolderWriter(tmp_path) as writer:
        writer.write("a/z", [b"1"])
        assert os.listdir(tmp_path / "a") == ["z"]
        writer.write("z", [b"1"])
    assert sorted(os.listdir(tmp_path)) == ["a", "z"]
