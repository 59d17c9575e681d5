"""``headrace shell``: commands from -c, from standard input, and names completed."""

from __future__ import annotations

import io
import os
import pty
import subprocess
import sys
import time
from typing import TYPE_CHECKING

from headrace.cli.verbs.shell import ArchiveShell
from headrace.formats.barecat import Archive

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pytest

    Said = Callable[..., str]


def test_looking(photos: Path, said: Said) -> None:
    assert said("shell", "photos.barecat", "-c", "cd cat", "-c", "pwd", "-c", "ls") == "/cat\n1.jpg\n2.jpg\n"
    printed = said("shell", "photos.barecat", "-c", "cd cat/../dog", "-c", "ls -R ..")
    assert printed.split("\n") == ["/cat/", "/cat/1.jpg", "/cat/2.jpg", "/dog/", "3 b.jpg", "/notes.txt", "/void/", ""]
    assert said("shell", "photos.barecat", "-c", "cd cat", "-c", "ls '/dog/*.jpg'") == "/dog/3 b.jpg\n"
    assert said("shell", "photos.barecat", "-c", "cd cat", "-c", "find") == "1.jpg\n2.jpg\n"
    assert "crc32c" in said("shell", "photos.barecat", "-c", "stat notes.txt")
    assert said("shell", "photos.barecat", "-c", "find --name '*2*'") == "cat/2.jpg\n"
    assert said("shell", "photos.barecat", "-c", "cd dog", "-c", "du -s ..").endswith("\t/\n")
    assert "└── void/" in said("shell", "photos.barecat", "-c", "tree -d")
    assert "ok" in said("shell", "photos.barecat", "-c", "verify", "-c", "info")
    assert "get [--force] NAME" in said("shell", "photos.barecat", "-c", "help")
    assert said("shell", "photos.barecat", "-c", "help pwd", "-c", "quit", "-c", "nope") == (
        "pwd: print the current directory.\n"
    )


def test_cat_and_get(photos: Path, said: Said) -> None:
    assert said("shell", "photos.barecat", "-c", "cat notes.txt") == "hello\n"
    said("shell", "photos.barecat", "-c", "cd dog", "-c", "get '3 b.jpg'", "-c", "get /cat out", "-c", "get /void")
    assert (photos / "3 b.jpg").read_bytes() == (photos / "photos" / "dog" / "3 b.jpg").read_bytes()
    assert sorted(os.listdir(photos / "out" / "cat")) == ["1.jpg", "2.jpg"]
    assert (photos / "void").is_dir()
    assert "--force" in said("shell", "photos.barecat", "-c", "get /cat out", code=2)
    said("shell", "photos.barecat", "-c", "get --force /cat out", "-c", "get 'cat/1*' two")
    assert os.listdir(photos / "two") == ["1.jpg"]
    said("shell", "photos.barecat", "-c", "lcd two", "-c", "lpwd", "-c", "get notes.txt")
    assert (photos / "two" / "notes.txt").read_text() == "hello\n"


def test_changing_needs_a_flag(photos: Path, said: Said) -> None:
    for command in ("rm notes.txt", "mv notes.txt x", "put photos", "mkdir x"):
        assert "start the shell with -w" in said("shell", "photos.barecat", "-c", command, code=2)
    said("shell", "-w", "photos.barecat", "-c", "cd void", "-c", "put photos/cat", "-c", "put photos/notes.txt /new")
    said("shell", "-w", "photos.barecat", "-c", "mkdir a/b", "-c", "mv notes.txt a/b", "-c", "rm -r dog")
    archive = Archive("photos.barecat")
    expected = ["a/b/notes.txt", "cat/1.jpg", "cat/2.jpg", "new/notes.txt", "void/cat/1.jpg", "void/cat/2.jpg"]
    assert sorted(archive) == expected
    assert archive.verify().ok


def test_the_first_error_ends_a_script(
    photos: Path, said: Said, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("# a comment\n\npwd\ncd nowhere\npwd\n"))
    assert "nowhere" in said("shell", "photos.barecat", code=2)
    for line, message in {
        "frobnicate": "no command is called",
        "ls --nope": "there is no option",
        "get": "takes a name",
        "help nope": "no command is called",
        "cat 'half": "No closing quotation",
        "cat void": "is a directory",
    }.items():
        assert message in said("shell", "photos.barecat", "-c", line, code=2)
    assert "does not exist" in said("shell", "nope.barecat", "-c", "ls", code=2)
    said("shell", "photos.barecat", "-c", "ls -h")
    with open("photos.barecat-shard-00000", "r+b") as shard:
        shard.write(b"\0\0\0\0")
    said("shell", "photos.barecat", "-c", "verify", code=2)


def test_names_complete(photos: Path) -> None:
    shell = ArchiveShell("photos.barecat")
    assert shell.completedefault("c", "ls c", 3, 4) == ["cat/"]
    assert shell.completedefault("cat/", "ls cat/", 3, 7) == ["cat/1.jpg", "cat/2.jpg"]
    shell.onecmd("cd cat")
    assert shell.completedefault("../d", "ls ../d", 3, 7) == ["../dog/"]
    assert shell.completedefault("/n", "ls /n", 3, 5) == ["/notes.txt"]
    assert shell.completedefault("/dog/", "ls /dog/", 3, 8) == ["/dog/'3 b.jpg'"]
    assert shell.completedefault("nope/", "ls nope/", 3, 8) == []
    assert "lcd" in shell.completenames("l")


def test_on_a_terminal(photos: Path) -> None:
    """With a prompt, Tab, Ctrl-C that gives up a line, and Ctrl-D."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "headrace", "shell", "photos.barecat"]
    environment = {**os.environ, "TERM": "dumb", "INPUTRC": os.devnull}
    with subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True, env=environment
    ) as process:
        os.close(theirs)
        seen = b""

        def until(text: bytes) -> None:
            nonlocal seen
            end = time.monotonic() + 30
            while text not in seen:
                assert time.monotonic() < end, seen
                seen += os.read(ours, 4096)

        until(b"photos.barecat:/> ")
        os.write(ours, b"cat no\t")
        until(b"notes.txt")
        seen = b""
        os.write(ours, b"\n")
        until(b"hello")
        until(b"> ")
        os.write(ours, b"\x04")
        assert process.wait(30) == 0
    os.close(ours)
