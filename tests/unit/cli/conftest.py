"""Small datasets and archives for the tests of the command, and a way to run it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from PIL import Image as Pillow
from tests.helpers import picture, write_folder

from headrace.cli.main import main
from headrace.codecs import jpeg

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

FILES = {"a.txt": b"hello", "sub/b.bin": bytes(range(256)), "sub/deep/c": b"", "index.jsonl": b"mine"}


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

    def run(*args: str | Path, code: int = 0) -> str:
        capsys.readouterr()
        assert main([str(word) for word in args]) == code, capsys.readouterr()
        captured = capsys.readouterr()
        return captured.err if code == 2 else captured.out

    return run


@pytest.fixture
def json_said(said: Callable[..., str]) -> Callable[..., Any]:
    """The same with --json, and what was printed as a value."""
    return lambda *args, code=0: json.loads(said(*args, "--json", code=code))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two classes, five pictures: four JPEG files and a PNG."""
    root = tmp_path / "pictures"
    for i, name in enumerate(["cat/a.jpg", "cat/b.JPEG", "dog/c.jpg", "dog/deep/d.jpg"]):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(jpeg.encode(picture(i, 40 + i, 60)))
    Pillow.fromarray(picture(9, 30, 20)).save(root / "dog" / "e.png")
    return root


@pytest.fixture
def packed(folder: Path, tmp_path: Path) -> Path:
    """The pictures as a .beton."""
    path = tmp_path / "x.beton"
    assert main(["create", str(path), str(folder), "-q"]) == 0
    return path


@pytest.fixture
def files_folder(tmp_path: Path) -> Path:
    """A folder of any files."""
    return write_folder(tmp_path / "folder", FILES)


@pytest.fixture
def packed_files(files_folder: Path, tmp_path: Path) -> Path:
    """The files as a packed folder."""
    path = tmp_path / "x.ffr"
    assert main(["create", str(path), str(files_folder), "-q"]) == 0
    return path


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with ``x.barecat`` and the folder ``src`` it was made of; it is the current one."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "src" / "cat").mkdir(parents=True)
    (tmp_path / "src" / "void").mkdir()
    for i in range(3):
        (tmp_path / "src" / "cat" / f"{i}.bin").write_bytes(bytes(1000 * (i + 1)))
    (tmp_path / "src" / "note\n.txt").write_text("hello")
    assert main(["create", "x.barecat", "src", "-q", "-s", "4K"]) == 0
    return tmp_path
