"""``headrace browse`` in a real terminal, on hostile archives: keys through every screen.

No traceback, no escape out of a file, and the terminal is as it was, however the browser ends.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import re
import select
import signal
import sqlite3
import struct
import sys
import termios
import time
from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.attacks.hostile import HOSTILE
from tests.attacks.rare_jpegs import RARE
from tests.helpers import image_file, picture

import headrace
from headrace.codecs import npy
from headrace.errors import HeadraceError
from headrace.formats.barecat import Archive

if TYPE_CHECKING:
    from pathlib import Path

pytest.importorskip("textual")
pytestmark = pytest.mark.slow

# What a terminal would obey: the title of the window, colours, C1 controls, right-to-left; and markup.
EVIL = "e\x1b]0;OWNED\x07\x1b[31m\x9b2J\u202e\u2066\u200b\x7f\r\n[red]@click[/][bold"
SIGNS = [b"OWNED\x07", b"]0;OWNED\x1b", "\x9b".encode(), "\u202e".encode(), "\u2066".encode(), "\u200b".encode()]
KEYS = {"down": b"\x1b[B", "up": b"\x1b[A", "right": b"\x1b[C", "left": b"\x1b[D", "enter": b"\r", "end": b"\x1b[F"}
ENTERED, LEFT = b"\x1b[?1049h", b"\x1b[?1049l"
WAIT_S = 60.0


class Terminal:
    """A command in a terminal of its own; what it prints is collected."""

    def __init__(self, *words: str, folder: Path, size: tuple[int, int] = (30, 100)) -> None:
        self.said = b""
        self._fd, self._keeper = pty.openpty()  # that the other end stays open keeps what is set when it has ended
        self.resize(*size)
        self.settings = termios.tcgetattr(self._keeper)
        self.process = os.fork()
        if self.process == 0:
            os.chdir(folder)
            os.close(self._fd)
            os.login_tty(self._keeper)
            os.environ.update(TERM="xterm-256color", COLORTERM="truecolor", PYTHONUNBUFFERED="1")
            os.execv(sys.executable, [sys.executable, "-m", "headrace.cli.main", *words])

    def resize(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self._fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def listen(self, seconds: float) -> None:
        """Collect what is printed, until it is quiet for so long."""
        while select.select([self._fd], [], [], seconds)[0]:
            try:
                self.said += os.read(self._fd, 1 << 16)
            except OSError:
                return

    def wait_for(self, text: bytes) -> bool:
        """Until the text was printed, or the process has ended."""
        until_s = time.monotonic() + WAIT_S
        while text not in self.said and time.monotonic() < until_s:
            self.listen(0.05)
            if os.waitid(os.P_PID, self.process, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
                self.listen(0.05)
                return text in self.said
        return text in self.said

    def press(self, *keys: str | bytes) -> None:
        for key in keys:
            os.write(self._fd, KEYS.get(key, key.encode()) if isinstance(key, str) else key)
            self.listen(0.15)

    def end(self) -> int:
        """Wait for the end; gives the exit code, or minus the signal."""
        until_s = time.monotonic() + WAIT_S
        while time.monotonic() < until_s:
            self.listen(0.05)
            done, status = os.waitpid(self.process, os.WNOHANG)
            if done:
                self.listen(0.1)
                return os.waitstatus_to_exitcode(status)
        os.kill(self.process, signal.SIGKILL)
        os.waitpid(self.process, 0)
        raise AssertionError(f"it does not end: {self.said[-2000:]!r}")

    def is_restored(self) -> bool:
        """The settings are as before, and what was switched on is off."""
        now = termios.tcgetattr(self._keeper)
        modes = dict(re.findall(rb"\x1b\[\?(\d+)([hl])", self.said))  # the last of each counts
        left_on = {mode for mode in (b"1049", b"1000", b"1002", b"1003", b"1006", b"2004") if modes.get(mode) == b"h"}
        return now == self.settings and not left_on and modes.get(b"25", b"h") == b"h"

    def close(self) -> None:
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            os.kill(self.process, signal.SIGKILL)
            os.waitpid(self.process, 0)
        os.close(self._fd)
        os.close(self._keeper)


def check(terminal: Terminal, codes: tuple[int, ...] = (0,)) -> None:
    assert terminal.end() in codes, terminal.said[-3000:]
    assert b"Traceback" not in terminal.said, terminal.said[-3000:]
    assert not [sign for sign in SIGNS if sign in terminal.said]
    assert terminal.is_restored(), terminal.said[-500:]


@pytest.fixture
def evil(tmp_path: Path) -> Path:
    path = tmp_path / "x.barecat"
    with Archive(path, "x", shard_size=1 << 20) as archive:
        archive["a.json"] = json.dumps({EVIL: [EVIL, {"x": "\x9b\u202e"}]}, ensure_ascii=False).encode()
        archive["b.json"] = b"[" * 100_000
        archive["c.txt"] = EVIL.encode() * 20
        archive["d.npy"] = npy.encode(np.array([EVIL, "b"]))
        archive["e.npy"] = npy.encode(np.zeros((1, 0, 3)))
        archive["f.png"] = image_file(picture(1, 9, 8), "PNG")
        archive["g.png"] = image_file(picture(1, 1, 1), "PNG")
        archive["h.png"] = b"%!PS-Adobe-3.0 EPSF-3.0\n"
        for number, data in enumerate(RARE.values()):
            archive[f"i{number}.jpg"] = data
        archive["k.png"] = image_file(np.zeros((2, 3000, 3), np.uint8), "PNG")
        archive["l"] = b""
        archive["m.bin"] = bytes(900_000)
        archive["n.json"] = b"[" + b"1," * 300_000 + b"1]"
        archive[f"{EVIL}/{EVIL}.txt"] = EVIL.encode()
        archive["[red]dir[/]/deep/[@click=app.quit]x[/]"] = b"markup"
    return path


def test_keys_through_every_screen(evil: Path, tmp_path: Path) -> None:
    terminal = Terminal("browse", "x.barecat", folder=tmp_path)
    try:
        assert terminal.wait_for(ENTERED)
        terminal.press("enter", "enter", "down", "left", "left", "down", "enter", "enter", "s", "left", "left")
        for _ in range(26):
            terminal.press("down")
        terminal.press("x", "s", "end", "x", "x", "up", "right", "right", "right", b"\x1b[5~", b"\x1b[6~", b"\t", b"?")
        for size in ((1, 1), (3, 20), (60, 200), (24, 80)):
            terminal.resize(*size)
            terminal.press("down", "up")
        terminal.press(b"\x10", b"\x1b", b"\x1b[<0;5;5M", b"\x1b[<0;5;5m", b"\x1b[200~pasted\x1b[201~")
        terminal.press(b"\x1b", "q")
        check(terminal)
    finally:
        terminal.close()


@pytest.mark.parametrize("how", ["q", "ctrl-c", "ctrl-q", "SIGTERM", "SIGINT", "SIGHUP"])
def test_the_terminal_is_restored(how: str, evil: Path, tmp_path: Path) -> None:
    terminal = Terminal("browse", "x.barecat", folder=tmp_path)
    try:
        assert terminal.wait_for(ENTERED)
        terminal.press("down", "down")
        if how.startswith("SIG"):
            os.kill(terminal.process, getattr(signal, how))
        else:
            terminal.press({"q": b"q", "ctrl-c": b"\x03", "ctrl-q": b"\x11"}[how])
        check(terminal, (0, 130, 143, 129, -15, -1, -2))
        assert LEFT in terminal.said
    finally:
        terminal.close()


def test_sizes_that_are_made_up(tmp_path: Path) -> None:
    path = tmp_path / "x.barecat"
    with Archive(path, "x") as archive:
        archive.update({"a/1": b"1", "b/2": b"2", "c/3": b"3"})
    with contextlib.closing(sqlite3.connect(path)) as index:
        index.execute("UPDATE config SET value_int = 0 WHERE key = 'use_triggers'")
        for name, size in (("a", 2**62), ("b", -(2**62)), ("c", -5)):
            index.execute("UPDATE dirs SET size_tree = ?, num_files = ? WHERE path = ?", (size, size, name))
        index.commit()
    terminal = Terminal("browse", "x.barecat", folder=tmp_path)
    try:
        assert terminal.wait_for(ENTERED)
        terminal.press("down", "s", "down", "down", "enter", "left", "q")
        check(terminal)
    finally:
        terminal.close()


def test_files_go_while_it_is_open(evil: Path, tmp_path: Path) -> None:
    terminal = Terminal("browse", "x.barecat", folder=tmp_path)
    try:
        assert terminal.wait_for(ENTERED)
        for file in sorted(tmp_path.glob("x.barecat-shard-*"))[1:]:
            file.unlink()
        terminal.press("end", *["up"] * 12, "x")
        os.truncate(tmp_path / "x.barecat-shard-00000", 100)
        terminal.press(*["up"] * 6, "x", "end")
        os.truncate(evil, 5000)
        terminal.press("enter", "left", "s", "up", "enter", "x")
        evil.write_bytes(b"nothing")
        terminal.press("left", "s", "up", "enter", "x", "enter")
        evil.unlink()
        terminal.press("left", "s", "up", "enter", "x", "q")
        check(terminal)
    finally:
        terminal.close()


@pytest.mark.parametrize("name", list(HOSTILE))
def test_hostile_files(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    path = HOSTILE[name](folder)
    try:
        headrace.open(path).close()
    except (HeadraceError, OSError):
        pytest.skip("it does not open, which the jail tries")
    terminal = Terminal("browse", str(path), folder=tmp_path)
    try:
        if terminal.wait_for(ENTERED):
            terminal.press("enter", "down", "down", "enter", "s", "left", "end", "enter", "left", "left", "q")
        check(terminal, (0, 1, 2))
    finally:
        terminal.close()
