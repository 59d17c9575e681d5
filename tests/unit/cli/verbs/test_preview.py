"""``headrace cat --preview``: on a terminal, and where there is none."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from tests.helpers import picture

import headrace as hr

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Said = Callable[..., str]

EVIL = "\x1b]0;evil\x07\x1b[31m\u202e"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    fields = {"image": hr.Image(), "label": hr.Int(), "text": hr.Text(), "data": hr.Bytes()}
    rows = [(picture(i, 150, 200), i, EVIL, EVIL.encode()) for i in range(3)]
    hr.write(tmp_path / "x.beton", rows, fields=fields, names=[f"{i}{EVIL}" for i in range(3)])
    return tmp_path / "x.beton"


def on_a_terminal(*arguments: str, **environment: str) -> bytes:
    """What the command writes to a terminal of 80 columns and 24 lines that answers nothing."""
    master, slave = pty.openpty()
    known = {name: value for name, value in os.environ.items() if name not in ("TMUX", "COLORTERM", "TERM_PROGRAM")}
    command = [sys.executable, "-m", "headrace", *arguments]
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=slave, stderr=slave, env=known | environment
    ) as one:
        os.close(slave)
        said = b""
        try:
            while part := os.read(master, 1 << 16):
                said += part
        except OSError:  # the last one has gone
            pass
        assert one.wait(60) == 0, said
    os.close(master)
    return said


def test_half_blocks_on_a_terminal(path: Path) -> None:
    said = on_a_terminal("cat", str(path), "1", "--preview", TERM="xterm-256color", COLORTERM="truecolor").decode()
    lines = [line for line in said.splitlines() if "▀" in line]
    assert len(lines) == 16  # 24 lines less what stands below
    assert lines[0].count("▀") == 43
    assert "200 x 150 pixels" in said
    assert "label: 1" in said
    assert "evil" in said
    for bad in ("\x1b]", "\x1b[31m", "\u202e", "\x07"):
        assert bad not in said


def test_a_protocol_on_a_terminal(path: Path) -> None:
    assert b"\x1b_Ga=T,f=100" in on_a_terminal("cat", str(path), "1", "--preview", TERM="xterm-kitty")
    said = on_a_terminal("cat", str(path), "1", "image", "--preview", TERM="xterm", HEADRACE_PICTURES="sixel")
    assert b'\x1bPq"1;1;' in said
    assert b"label" not in said


def test_text_alone_elsewhere(path: Path, said: Said) -> None:
    text = said("cat", path, "1", "--preview")
    assert "image: 200 x 150 pixels" in text
    assert "▀" not in text
    assert "\x1b" not in text


def test_a_file_of_an_archive(photos: Path, said: Said) -> None:
    assert "30 x 20 pixels" in said("cat", "photos.barecat", "cat/1.jpg", "--preview")
    assert "hello" in said("cat", "photos.barecat", "notes.txt", "--preview")
    assert "is a directory" in said("cat", "photos.barecat", "cat", "--preview", code=2)


def test_damage_is_told(path: Path, said: Said) -> None:
    data = bytearray(path.read_bytes())
    at = data.index(b"\xff\xd8\xff") + 500
    data[at : at + 50] = bytes(50)
    path.write_bytes(data)
    assert "It cannot be shown: " in said("cat", path, "0", "--preview")


def test_preview_and_stored_exclude_each_other(path: Path, said: Said) -> None:
    with pytest.raises(SystemExit):
        said("cat", path, "0", "--preview", "--stored")


def test_the_browser_writes_pictures_over_blank_lines(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("textual")
    import asyncio

    from headrace.cli.browser import Browser
    from headrace.cli.shelves import DatasetShelf
    from headrace.terminal import Screen

    written: list[str] = []

    async def drive() -> None:
        with hr.open(path) as dataset:
            app = Browser(DatasetShelf(dataset), screen=Screen(way="kitty", cell=(10, 20)))
            async with app.run_test(size=(100, 40)) as pilot:
                assert app._driver is not None
                monkeypatch.setattr(app._driver, "write", written.append)
                await pilot.pause(0.3)
                await pilot.press("down")
                await pilot.pause(0.3)
                shot = app.export_screenshot()
                assert "▀" not in shot
                assert "\x1b" not in shot

    asyncio.run(drive())
    drawn = [text for text in written if "\x1b_Ga=T" in text]
    assert drawn
    assert all(text.startswith("\x1b7\x1b_Ga=d") and text.endswith("\x1b8") for text in drawn)
