"""Which pictures a terminal can show: by its environment, and by what it answers."""

from __future__ import annotations

import contextlib
import fcntl
import io
import os
import pty
import struct
import termios
import threading
import time
from typing import TYPE_CHECKING

import pytest

from headrace.terminal import Screen, cut, find_screen, screen

if TYPE_CHECKING:
    from collections.abc import Iterator

XTERM = {"TERM": "xterm-256color"}


class Terminal:
    """A pseudo-terminal that answers questions as it is told; what it was sent is in ``heard``."""

    def __init__(self, answer: bytes = b"", *, size: tuple[int, int, int, int] = (30, 100, 0, 0)) -> None:
        self.master, self.slave = pty.openpty()
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", *size))
        self.stream = os.fdopen(os.dup(self.slave), "w")
        self.heard = b""
        self._answer = answer
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while data := os.read(self.master, 1000):
                self.heard += data
                if b"\x1b[c" in data:
                    os.write(self.master, self._answer)

    def close(self) -> None:
        self.stream.close()
        os.close(self.slave)
        self._thread.join(5)
        os.close(self.master)


@pytest.fixture(autouse=True)
def foreground(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pseudo-terminal is not the one that the tests run in."""
    monkeypatch.setattr(screen.os, "tcgetpgrp", lambda descriptor: os.getpgrp())


@contextlib.contextmanager
def terminal(answer: bytes = b"", size: tuple[int, int, int, int] = (30, 100, 0, 0)) -> Iterator[Terminal]:
    one = Terminal(answer, size=size)
    try:
        yield one
    finally:
        one.close()


def test_no_terminal_no_pictures() -> None:
    assert find_screen(None) == find_screen(io.StringIO()) == Screen(way="text", columns=80, lines=24)


@pytest.mark.parametrize(
    ("environment", "way"),
    [
        ({"TERM": "dumb"}, "text"),
        ({}, "text"),
        ({"TERM": "xterm-kitty"}, "kitty"),
        (XTERM | {"KITTY_WINDOW_ID": "1"}, "kitty"),
        (XTERM | {"TERM_PROGRAM": "ghostty"}, "kitty"),
        (XTERM | {"TERM_PROGRAM": "iTerm.app"}, "iterm2"),
        (XTERM | {"LC_TERMINAL": "iTerm2"}, "iterm2"),
        (XTERM | {"TERM_PROGRAM": "WezTerm"}, "iterm2"),
        (XTERM, "blocks256"),
        (XTERM | {"COLORTERM": "truecolor"}, "blocks"),
        ({"TERM": "tmux-256color", "KITTY_WINDOW_ID": "1"}, "blocks256"),
        (XTERM | {"TMUX": "/tmp/x", "TERM_PROGRAM": "iTerm.app", "COLORTERM": "24bit"}, "blocks"),
        (XTERM | {"HEADRACE_PICTURES": "sixel"}, "sixel"),
        ({"TERM": "xterm-kitty", "HEADRACE_PICTURES": "text"}, "text"),
    ],
)
def test_by_the_environment(environment: dict[str, str], way: str) -> None:
    with terminal() as one:
        assert find_screen(one.stream, None, environment).way == way


def test_a_way_that_is_none() -> None:
    with terminal() as one, pytest.raises(ValueError, match=r"HEADRACE_PICTURES must be .*, got 'ascii'"):
        find_screen(one.stream, None, XTERM | {"HEADRACE_PICTURES": "ascii"})


@pytest.mark.parametrize(
    ("answer", "way"),
    [
        (b"\x1b_Gi=31;OK\x1b\\\x1b[?62;c", "kitty"),
        (b"\x1b[6;18;9t\x1b[?62;4;22c", "sixel"),
        (b"\x1b[?4c", "blocks256"),  # the first number is the kind of the terminal
        (b"\x1b[?62;22c", "blocks256"),
        (b"nonsense\xff\x1b[?64;1;2;4c", "sixel"),
    ],
)
def test_by_the_answer(answer: bytes, way: str) -> None:
    with terminal(answer) as one:
        before = termios.tcgetattr(one.slave)
        found = find_screen(one.stream, one.slave, XTERM)
        assert (found.way, found.columns, found.lines) == (way, 100, 30)
        assert found.cell == ((9, 18) if b"[6;" in answer else (8, 16))
        assert termios.tcgetattr(one.slave) == before
        assert one.heard.startswith(b"\x1b_G")


def test_tmux_is_not_asked_what_it_takes_for_a_title() -> None:
    with terminal(b"\x1b[?1;2;4c") as one:
        assert find_screen(one.stream, one.slave, XTERM | {"TMUX": "x"}).way == "sixel"
        assert b"\x1b_" not in one.heard


def test_a_terminal_that_does_not_answer_or_never_ends_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(screen, "_TIMEOUT_S", 0.05)
    for answer in (b"", b"\x1b[?62;4"):
        with terminal(answer) as one:
            start_s = time.monotonic()
            assert find_screen(one.stream, one.slave, XTERM).way == "blocks256"
            assert time.monotonic() - start_s < 2


def test_in_the_background_nobody_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(screen.os, "tcgetpgrp", lambda descriptor: -1)
    with terminal(b"\x1b[?62;4c") as one:
        assert find_screen(one.stream, one.slave, XTERM).way == "blocks256"
        assert not one.heard


def test_the_pixels_of_a_place() -> None:
    with terminal(size=(40, 100, 1000, 800)) as one:
        assert find_screen(one.stream, None, XTERM).cell == (10, 20)
    with terminal(size=(40, 100, 60000, 1)) as one:
        assert find_screen(one.stream, None, XTERM).cell == (8, 16), "it makes no sense"
    assert Screen(way="sixel", cell=(10, 20)).box(30, 4) == (300, 80)
    assert Screen(way="blocks").box(30, 4) == (30, 8)


def test_text_is_cut_by_columns() -> None:
    assert cut("日本語の名前", 7) == "日本語…"
    assert cut("a\x1b[31mb", 40) == "a\\x1b[31mb"
    assert len(cut("\x1b" * 1000, 10)) <= 10
