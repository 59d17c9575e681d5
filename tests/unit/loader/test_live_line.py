"""``Loader(progress=True)``: one line on a terminal, nothing elsewhere."""

from __future__ import annotations

import io
import sys
from typing import TYPE_CHECKING

import pytest
from tests.unit.loader.tools import CROP, LABELS_ONLY

from headrace import Loader

if TYPE_CHECKING:
    from pathlib import Path


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_shows_how_the_loop_goes(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    for _ in Loader(path, 4, pipelines={"image": CROP}, progress=True, drop_last=False):
        pass
    last = terminal.getvalue().rstrip().split("\r")[-1]
    assert last.startswith("epoch 0 100%")
    assert " binds | 37/37 | " in last
    assert "10/10 batches, waits " in last
    assert " samples/s | " in last
    assert terminal.getvalue().endswith("\n")


def test_nothing_is_drawn_where_nobody_watches(path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for _ in Loader(path, 4, pipelines=LABELS_ONLY, progress=True):
        pass
    assert capfd.readouterr() == ("", "")


def test_nothing_is_drawn_without_asking(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    list(Loader(path, 4, pipelines=LABELS_ONLY))
    assert terminal.getvalue() == ""


def test_a_loop_that_is_left_early_ends_the_line(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    for _ in Loader(path, 4, pipelines=LABELS_ONLY, progress=True):
        break
    assert terminal.getvalue().endswith("\n")


def test_progress_is_true_or_false(path: Path) -> None:
    with pytest.raises(TypeError, match="progress must be True or False, got 1"):
        Loader(path, 4, progress=1)  # type: ignore[arg-type]
