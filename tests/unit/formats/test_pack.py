from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.helpers import image_file, picture

import headrace as hr
from headrace.errors import WriteError

if TYPE_CHECKING:
    from pathlib import Path

FILES = {
    "cat/b.jpg": image_file(picture(1, 20, 30), "JPEG"),
    "cat/a.PNG": image_file(picture(2, 10, 12), "PNG"),
    "dog/deep/er/c.jpeg": image_file(picture(3, 40, 25), "JPEG"),
    "ant/d.bmp": image_file(picture(4, 5, 6), "BMP"),
}
IGNORED = {"cat/notes.txt": b"x", "cat/.hidden.jpg": b"x", ".git/e.jpg": b"x", "empty/readme.md": b"x"}
KEYS = ["ant/d.bmp", "cat/a.PNG", "cat/b.jpg", "dog/deep/er/c.jpeg"]
LABELS = [0, 1, 1, 2]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "tree"
    for name, data in (FILES | IGNORED).items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return root


@pytest.mark.parametrize("workers", [1, 3])
def test_pack(folder: Path, tmp_path: Path, workers: int) -> None:
    path = tmp_path / "x.beton"
    hr.pack(path, folder, workers=workers, image=hr.Image(mode="jpg", max_side=35))
    dataset = hr.open(path)
    assert list(dataset.keys or ()) == KEYS
    assert dataset.column("label").tolist() == LABELS
    assert dataset.class_names == {"label": ["ant", "cat", "dog"]}
    assert dataset.metadata == {"packed_from": "tree"}
    assert dataset.read_bytes([2], "image") == [FILES["cat/b.jpg"]], "fits, so it goes in byte for byte"
    assert dataset[3].image.shape == (35, int(35 / 40 * 25), 3)
    assert hr.verify(path, decode=True).ok


def test_pack_shuffled(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "x.beton"
    hr.pack(path, folder, shuffle_seed=1, image=hr.Image(mode="raw"), metadata={"my": "own"})
    dataset = hr.open(path)
    assert dataset.metadata == {"my": "own"}
    assert sorted(dataset.keys or ()) == KEYS
    for key, label in zip(dataset.keys or (), dataset.column("label"), strict=True):
        assert LABELS[KEYS.index(key)] == label


def test_pack_names_the_file_that_is_broken(folder: Path, tmp_path: Path) -> None:
    (folder / "cat" / "b.jpg").write_bytes(b"not a picture")
    with pytest.raises(WriteError, match=r"sample 2, field 'image' .*b\.jpg"):
        hr.pack(tmp_path / "x.beton", folder)
    assert not (tmp_path / "x.beton").exists()
