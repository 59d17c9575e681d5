"""``headrace browse``: previews, and the browser driven by keys."""

from __future__ import annotations

import asyncio
import io
import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.helpers import picture

import headrace as hr
from headrace.cli import shelves
from headrace.cli.previews import describe_file, describe_sample
from headrace.cli.shelves import ArchiveShelf, DatasetShelf
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
    assert pixels.shape == (160, 240, 3), "a tiny picture is enlarged"
    assert "hello" in preview(archive, "notes.txt")
    assert preview(archive, "a.json").endswith("...")
    assert "int64, 2 x 3" in preview(archive, "a.npy")
    assert "000010  10 11 12" in preview(archive, "blob")
    assert "\\x1b[31mred" in preview(archive, "script"), "nothing disturbs the terminal"
    for name in ("broken.jpg", "broken.json", "evil.npy"):
        assert "It cannot be shown" in preview(archive, name)


def test_without_a_terminal(photos: Path, said: Said) -> None:
    pytest.importorskip("textual")
    assert "needs a terminal" in said("browse", "photos.barecat", code=2)
    assert "does not exist" in said("browse", "photos.barecat", "nope", code=2)


def test_keys(archive: Archive, photos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("textual")
    from headrace.cli.browser import Browser

    (photos / "here").mkdir()
    monkeypatch.chdir(photos / "here")

    async def drive() -> None:
        app: Any = Browser(ArchiveShelf(archive))
        async with app.run_test(size=(100, 40)) as pilot:
            await pilot.pause()
            names = [entry.name for entry in app.entries]
            assert names[:4] == ["cat", "dog", "void", "a.json"]
            await pilot.press("enter")
            await pilot.pause()
            assert (app.place, app.current.name) == ("cat", "1.jpg")
            assert "▀" in app.export_screenshot()
            await pilot.press("x")
            await pilot.press("left")
            await pilot.pause()
            assert (app.place, app.current.name) == ("", "cat")
            await pilot.press("s")
            await pilot.pause()
            assert app.entries[0].name == "cat"
            assert app.entries[-1].name == "void", "the largest first"
            await pilot.press("s", "down", "down", "enter", "x")
            await pilot.pause()
            assert (app.place, app.current) == ("void", None)
            await pilot.press("q")

    asyncio.run(drive())
    assert (photos / "here" / "cat" / "1.jpg").exists()


@pytest.fixture
def dataset(tmp_path: Path) -> Iterator[hr.Dataset]:
    fields = {
        "image": hr.Image(mode="raw"),
        "label": hr.Int(),
        "about": hr.Json(),
        "text": hr.Text(),
        "data": hr.Bytes(),
    }
    samples = [(picture(i, 20, 30), i % 2, {"n": [i]}, "\x1b[31mred", bytes(range(20))) for i in range(5)]
    names = [f"{'cat' if i % 2 else 'dog'}/{i}.png" for i in range(5)]
    hr.write(tmp_path / "x.beton", samples, fields=fields, names=names, class_names={"label": ["dog", "cat"]})
    with hr.open(tmp_path / "x.beton") as opened:
        yield opened


def test_previews_of_samples(dataset: hr.Dataset, tmp_path: Path) -> None:
    preview = describe_sample(dataset, 3)
    text = "\n".join(preview.lines)
    for part in ("sample 3\ncat/3.png\n", "image: 30 x 20 pixels", "label: 1 (cat)", '"n": [', "\\x1b[31mred", "20 B"):
        assert part in text
    assert "\x1b" not in text
    assert preview.pixels is not None
    data = bytearray((tmp_path / "x.beton").read_bytes())
    data[int(dataset.image_facts("image")["data_ptr"][3]) + 9] ^= 1  # type: ignore[attr-defined]
    (tmp_path / "x.beton").write_bytes(data)
    with hr.open(tmp_path / "x.beton") as damaged:
        assert "It cannot be shown: " in "\n".join(describe_sample(damaged, 3).lines)


def test_very_many_samples_lie_in_stretches(dataset: hr.Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    shelf = DatasetShelf(dataset)
    assert [entry.cells for entry in shelf.entries("", by_size=False)][:2] == [("0", "dog/0.png"), ("1", "cat/1.png")]
    assert shelf.place_of("cat/3.png") == ("", "3")
    monkeypatch.setattr(shelves, "_PAGE", 2)
    assert [(entry.name, entry.is_dir) for entry in shelf.entries("", by_size=False)] == [
        ("0:2", True),
        ("2:4", True),
        ("4:5", True),
    ]
    assert [entry.name for entry in shelf.entries("2:4", by_size=False)] == ["2", "3"]
    assert shelf.place_of("-1") == ("4:5", "4")
    assert shelf.above("4:5") == ("", "4:5")


@pytest.mark.parametrize("name", ["x.beton", "x.ffr", "folder"])
def test_every_format_can_be_browsed(packed: Path, packed_files: Path, folder: Path, said: Said, name: str) -> None:
    pytest.importorskip("textual")
    path = {"x.beton": packed, "x.ffr": packed_files, "folder": folder}[name]
    assert "needs a terminal" in said("browse", path, code=2)
    assert "needs a terminal" in said("browse", path, "0", code=2)
    assert "no sample is called 'nope'" in said("browse", path, "nope", code=2)


def test_keys_in_a_dataset(dataset: hr.Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("textual")
    from headrace.cli.browser import Browser

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(shelves, "_PAGE", 3)
    shelf = DatasetShelf(dataset)

    async def drive() -> None:
        app: Any = Browser(shelf, *shelf.place_of("1"))
        async with app.run_test(size=(100, 40)) as pilot:
            await pilot.pause()
            assert (app.place, app.current.name) == ("0:3", "1")
            assert "▀" in app.export_screenshot()
            await pilot.press("x", "left")
            await pilot.pause()
            assert (app.place, app.current.name) == ("", "0:3")
            await pilot.press("x", "down", "enter")
            await pilot.pause()
            assert (app.place, app.current.name) == ("3:5", "3")
            await pilot.press("s", "q")

    asyncio.run(drive())
    assert (tmp_path / "sample-00000001.png").exists()
