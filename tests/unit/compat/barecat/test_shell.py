"""The shell."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from headrace.compat.barecat import Barecat
from headrace.compat.barecat.cli.shell import BarecatShell

if TYPE_CHECKING:
    from collections.abc import Iterator


class Session:
    """A shell, and what it prints."""

    def __init__(self, shell: BarecatShell, captured: pytest.CaptureFixture[str]) -> None:
        self.shell = shell
        self._captured = captured

    def __call__(self, line: str) -> list[str]:
        self.shell.onecmd(line)
        return self._captured.readouterr().out.splitlines()


@pytest.fixture
def session(
    filled: str, capfd: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Session]:
    monkeypatch.chdir(tmp_path)
    with BarecatShell(filled) as shell:
        yield Session(shell, capfd)


@pytest.fixture
def editing(
    filled: str, capfd: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Session]:
    monkeypatch.chdir(tmp_path)
    with BarecatShell(filled, readonly=False) as shell:
        yield Session(shell, capfd)


def test_going_around(session: Session) -> None:
    assert session.shell.prompt == "barecat:/> "
    assert session("pwd") == ["/"]
    assert session("ls") == ["a.txt", "dir/", "other/"]
    session("cd dir")
    assert session.shell.prompt == "barecat:/dir> "
    assert session("ls") == [".hidden", "b.txt", "sub/"]
    session("cd ../other")
    assert session("pwd") == ["/other"]
    assert session("cd /dir/b.txt") == ["cd: not a directory: dir/b.txt"]
    session("cd")
    assert session("pwd") == ["/"]


def test_looking(session: Session) -> None:
    assert session("cat dir/b.txt") == ["second file"]
    assert session("cat no") == ["cat: no: No such file"]
    assert session("cat") == ["cat: missing path"]
    assert session("head -n 3 dir/b.txt") == ["sec"]
    assert session("head no") == ["head: no: No such file"]
    assert session("stat dir/b.txt")[:2] == ["  File: dir/b.txt", "  Size: 11"]
    assert session("stat dir")[1] == " Files: 2 (direct)"
    assert session("stat no") == ["stat: no: No such file or directory"]
    assert session("ls -l")[0].startswith("total ")
    assert sorted(session("ls -R dir")) == ["dir/.hidden", "dir/b.txt", "dir/sub/c.bin"]
    assert sorted(session("find -name *.txt")) == ["a.txt", "dir/b.txt"]
    assert session("find dir -type d -maxdepth 1") == ["dir", "dir/sub"]
    assert session("find -bogus") == ["find: unknown option: -bogus"]
    assert session("du") == ["10257\t."]
    assert session("du -d 0 dir") == ["10252\tdir"]
    assert session("tree -L 1")[-1] == "3 directories, 1 files"
    assert "  Files: 5" in session("info")
    assert session("sql SELECT path FROM files WHERE size = 11") == ["path", "-" * 40, "dir/b.txt", "(1 rows)"]
    session("sql nonsense")
    assert session("xyz") == ["Unknown command: xyz"]
    assert session(".pwd") == ["/"]
    assert session("!echo hello") == ["hello"]
    assert session.shell.onecmd("quit") is session.shell.onecmd(".quit") is session.shell.onecmd("EOF") is True


def test_numbered_files_as_one_line(path: str, capfd: pytest.CaptureFixture[str]) -> None:
    with Barecat(path, readonly=False) as bc:
        for number in range(12):
            bc[f"s/frame_{number:04}.jpg"] = b""
        bc["s/readme"] = b""
        bc["s/d/x"] = b""
    with BarecatShell(path) as shell:
        shell.onecmd("lss s")
        shell.onecmd("lss no")
    lines = capfd.readouterr().out.splitlines()
    assert lines == ["d/", "frame_****.jpg  (12 files, 0000\u20130011)", "readme", "lss: not a directory: no"]


def test_to_the_disk(session: Session, tmp_path: Path) -> None:
    session("get dir/b.txt")
    assert Path("b.txt").read_bytes() == b"second file"
    session("get dir folder")
    assert Path("folder/sub/c.bin").exists()
    session("mget **/*.txt out")
    assert sorted(p.name for p in Path("out").iterdir()) == ["a.txt", "b.txt"]
    assert session("get no") == ["get: no: No such file or directory"]
    Path("local").mkdir()
    assert session("lcd local") == [f"Local directory: {tmp_path / 'local'}"]
    assert session("lpwd") == [str(tmp_path / "local")]
    session("get a.txt")
    assert session("lls") == ["a.txt"]
    assert session("lcd no")[0].startswith("lcd: not a directory")
    assert session("lls /nowhere/at/all")[0].startswith("lls: ")


def test_changing(editing: Session, session: Session, tmp_path: Path) -> None:
    (tmp_path / "f.txt").write_bytes(b"from disk")
    (tmp_path / "g.txt").write_bytes(b"too")
    assert editing("put f.txt dir/f.txt")[0].startswith("Added: ")
    assert editing.shell.bc["dir/f.txt"] == b"from disk"
    assert editing("put f.txt dir/f.txt") == ["put: File already exists: dir/f.txt"]
    assert editing("put no") == [f"put: {tmp_path}/no: No such file"]
    assert editing("mput *.txt many")[-1] == "Added 2 files"
    assert editing("mv many/g.txt h.txt") == ["Renamed: many/g.txt -> h.txt"]
    assert editing("mv no h") == ["mv: File not found: no"]
    assert editing("rm h.txt") == ["Removed: h.txt"]
    assert editing("rm dir") == ["rm: dir: Is a directory (use rmdir or rm -r)"]
    assert editing("rm no") == ["rm: no: No such file"]
    for word in ("put", "mput", "rm", "mv"):
        assert "read-only" in session(f"{word} a b")[0]


def test_completion(session: Session) -> None:
    def complete(line: str) -> list[str]:
        text = line.rpartition(" ")[2]
        return session.shell.completedefault(text, line, len(line) - len(text), len(line))

    assert complete("cat d") == ["dir/"]
    assert sorted(complete("cat dir/")) == ["dir/.hidden", "dir/b.txt", "dir/sub/"]
    assert complete("cd dir/") == ["dir/sub/"]
    assert complete("ls /di") == ["/dir/"]
    assert complete("cat no/x") == []
    assert complete("quit x") == []
