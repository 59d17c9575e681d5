"""``loader.show()``: the next batch, and nothing else changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.helpers import picture

import headrace as hr
from headrace import ops
from headrace.formats import gallery
from headrace.types import Padded

if TYPE_CHECKING:
    from pathlib import Path

PIPELINE = {"image": [ops.RandomResizedCrop(32), ops.Normalize(mean=(120,) * 3, std=(60,) * 3), ops.ToLayout("NCHW")]}


@pytest.fixture(autouse=True)
def notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gallery, "is_notebook", lambda stream: True)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    rows = [(picture(i, 40, 50), i) for i in range(20)]
    classes = [f"class {i}" for i in range(20)]
    hr.write(tmp_path / "x.beton", rows, fields={"image": hr.Image(), "n": hr.Int()}, class_names={"n": classes})
    return tmp_path / "x.beton"


def shown_numbers(loader: hr.Loader, *args: Any) -> list[int]:
    found: Any = loader.show(*args)
    return [int(tile.captions[1].split()[1]) for tile in found.tiles]


def test_the_next_batch_before_in_and_after_a_loop(path: Path) -> None:
    loader = hr.Loader(path, 4, order="random", seed=3, pipelines=PIPELINE)
    epochs = [[batch.n.tolist() for batch in hr.Loader(path, 4, order="random", seed=3)]]
    other = hr.Loader(path, 4, order="random", seed=3)
    other.set_epoch(1)
    epochs.append([batch.n.tolist() for batch in other])
    assert shown_numbers(loader) == epochs[0][0]
    for number, batch in enumerate(loader):
        assert batch.n.tolist() == epochs[0][number]
        wanted = epochs[0][number + 1] if number < 4 else epochs[1][0]
        assert shown_numbers(loader) == wanted
    assert shown_numbers(loader) == epochs[1][0]
    assert shown_numbers(loader, 2) == epochs[1][2]
    loader.set_epoch(0)
    for _ in loader:
        break
    assert shown_numbers(loader) == epochs[1][0]  # as the next loop begins


def test_nothing_is_disturbed(path: Path) -> None:
    loader, quiet = (hr.Loader(path, 4, order="random", seed=3, pipelines=PIPELINE) for _ in range(2))
    for mine, theirs in zip(loader, quiet, strict=True):
        before = loader.state_dict()
        loader.show()
        assert loader.state_dict() == before == quiet.state_dict()
        assert np.array_equal(mine.image, theirs.image)
    assert loader.stats.jpegs == quiet.stats.jpegs


def test_the_pixels_are_those_of_the_batch(path: Path) -> None:
    loader = hr.Loader(path, 4, pipelines=PIPELINE)
    found: Any = loader.show()
    batch = loader[0].image
    share = (batch - batch.min()) / (batch.max() - batch.min())
    for tile, wanted in zip(found.tiles, share, strict=True):
        assert np.abs(tile.picture.pixels - wanted.transpose(1, 2, 0) * 255).max() <= 0.51
    assert found.title == "batch 0 of 5"
    assert dict(found.fields)["image"].startswith("numpy, float32, 4 x 3 x 32 x 32, ")
    assert "drawn from the least to the most" in dict(found.fields)["image"]
    assert dict(found.fields)["n"] == "numpy, int64, 4, 0 to 3"
    assert "n: 2 (class 2)" in found.tiles[2].captions
    assert "<img " in found._repr_html_()


def test_a_function_for_errors_is_not_called_twice(path: Path, tmp_path: Path) -> None:
    data = bytearray(path.read_bytes())
    at = data.index(b"\xff\xd8\xff") + 400
    data[at : at + 60] = bytes(60)
    path.write_bytes(data)
    heard: list[Exception] = []
    loader = hr.Loader(path, 4, pipelines=PIPELINE, on_error=heard.append)
    loader.show()
    assert (heard, loader.errors) == ([], [])
    list(loader)
    assert len(heard) == 1


def test_values_of_other_kinds(tmp_path: Path) -> None:
    fields = {"text": hr.Text(), "ids": hr.Bytes(), "v": hr.NDArray("float32", (2,)), "j": hr.Json()}
    rows = [("abc" * i, bytes(range(i)), np.array([i, i / 2], np.float32), {"i": i}) for i in range(1, 5)]
    hr.write(tmp_path / "x.beton", rows, fields=fields)
    found: Any = hr.Loader(tmp_path / "x.beton", 4, collate={"ids": "pad"}).show()
    assert isinstance(hr.Loader(tmp_path / "x.beton", 4, collate={"ids": "pad"})[0].ids, Padded)
    words = dict(found.fields)
    assert words["text"] == "list of 4"
    assert words["ids"] == "padded: uint8, 4 x 4"
    assert "v: [2.0, 1.0]" in found.tiles[1].captions
    assert "text: abcabc" in found.tiles[1].captions
    found = hr.Loader(tmp_path / "x.beton", 4, collate={"ids": "offsets"}).show(count=2)
    assert "ids: [0, 1]" in found.tiles[1].captions
    assert found.note == "2 samples more; count= says how many are shown"


def test_tensors_of_torch(path: Path) -> None:
    torch = pytest.importorskip("torch")
    found: Any = hr.Loader(path, 4, device="cpu", pipelines={"image": [ops.CenterCrop(32)]}).show()
    assert dict(found.fields)["image"].startswith("torch on cpu, uint8, 4 x 32 x 32 x 3")
    assert torch is not None


def test_wrong_arguments(path: Path) -> None:
    loader = hr.Loader(path, 4)
    with pytest.raises(ValueError, match="count must be 1 to 256"):
        loader.show(count=1000)
    with pytest.raises(IndexError, match="batch 5 is out of range"):
        loader.show(5)
    with pytest.warns(UserWarning, match="is larger than the dataset"):
        empty = hr.Loader(path, 40)
    with pytest.raises(ValueError, match="there is no batch to show"):
        empty.show()
