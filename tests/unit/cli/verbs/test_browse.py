"""``headrace browse``: previews, and the browser driven by keys."""

from __future__ import annotations

import asyncio
import io
import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from headrace.cli.previews import describe_file, shrink
from headrace.formats.barecat import Archive

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    Said = Callable[..., str]


@pytest.fixture
def archive(photos: Path) -> Iterator[Archive]:
    array = io.BytesIO()
    np.save(array, np.arange(6).reshape(2, 3))
    with Archive("photos.barecat", "r+") as writer:
        writer["a.json"] = json.dumps({"x": list(range(300))}).encode()
        writer["a.npy"] = array.getvalue()
        writer["blob"] = bytes(range(40))
        writer["broken.jpg"] = b"\xff\xd8nothing"
        writer["broken.json"] = b"{" * 10
        writer["evil.npy"] = b"\x93NUMPY\x01\x00\x10\x00{'descr': '|O'"
        writer["script"] = b"\x1b[31mred\n" * 3
    with Archive("photos.barecat") as opened:
        yield opened


def preview(archive: Archive, name: str) -> str:
    return "\n".join(describe_file(archive, archive.stat(name)).lines)  # type: ignore[arg-type]


def test_previews(archive: Archive) -> None:
    assert "30 x 20 pixels" in preview(archive, "cat/1.jpg")
    pixels = describe_file(archive, archive.stat("cat/1.jpg")).pixels  # type: ignore[arg-type]
    assert pixels is not None
    assert pixels.shape == (20, 30, 3)
    assert "hello" in preview(archive, "notes.txt")
    assert preview(archive, "a.json").endswith("...")
    assert "int64, 2 x 3" in preview(archive, "a.npy")
    assert "000010  10 11 12" in preview(archive, "blob")
    assert "\\x1b[31mred" in preview(archive, "script"), "nothing disturbs the terminal"
    for name in ("broken.jpg", "broken.json", "evil.npy"):
        assert "It cannot be shown" in preview(archive, name)


def test_shrinking_keeps_the_sides_in_proportion() -> None:
    assert shrink(np.zeros((400, 100, 3), np.uint8), 40, 40).shape == (40, 10, 3)
    assert shrink(np.zeros((1, 1000, 3), np.uint8), 40, 40).shape == (2, 40, 3)


def test_without_a_terminal(photos: Path, said: Said) -> None:
    pytest.importorskip("textual")
    assert "needs a terminal" in said("browse", "photos.barecat", code=2)
    assert "does not exist" in said("browse", "photos.barecat", "nope", code=2)


def test_keys(archive: Archive, photos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("textual")
    from headrace.cli.browser import ArchiveBrowser

    (photos / "here").mkdir()
    monkeypatch.chdir(photos / "here")

    async def drive() -> None:
        app: Any = ArchiveBrowser(archive)
        async with app.run_test(size=(100, 40)) as pilot:
            await pilot.pause()
            names = [entry.name for entry in app.entries]
            assert names[:4] == ["cat", "dog", "void", "a.json"]
            await pilot.press("enter")
            await pilot.pause()
            assert (app.directory, app.current.name) == ("cat", "1.jpg")
            assert "▀" in app.export_screenshot()
            await pilot.press("x")
            await pilot.press("left")
            await pilot.pause()
            assert (app.directory, app.current.name) == ("", "cat")
            await pilot.press("s")
            await pilot.pause()
            assert app.entries[0].name == "cat"
            assert app.entries[-1].name == "void", "the largest first"
            await pilot.press("s", "down", "down", "enter", "x")
            await pilot.pause()
            assert (app.directory, app.current) == ("void", None)
            await pilot.press("q")

    asyncio.run(drive())
    assert (photos / "here" / "cat" / "1.jpg").exists()
