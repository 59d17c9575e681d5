"""A small archive for the tests of the command."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.helpers import picture

from headrace.cli.main import main
from headrace.codecs import jpeg

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def photos(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with ``photos.barecat`` and the folder ``photos`` it was made of; it is the current one."""
    monkeypatch.chdir(tmp_path)
    for name in ("cat/1.jpg", "cat/2.jpg", "dog/3 b.jpg"):
        (tmp_path / "photos" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "photos" / name).write_bytes(jpeg.encode(picture(len(name), 20, 30)))
    (tmp_path / "photos" / "notes.txt").write_text("hello\n")
    (tmp_path / "photos" / "void").mkdir()
    assert main(["convert", "photos", "photos.barecat", "-q"]) == 0
    return tmp_path


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Run the command and give what it printed: on standard error if it must fail."""

    def run(*args: str, code: int = 0) -> str:
        capsys.readouterr()
        assert main(list(args)) == code, capsys.readouterr()
        captured = capsys.readouterr()
        return captured.err if code == 2 else captured.out

    return run
