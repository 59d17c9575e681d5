from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.unit.formats.picture_folder import FILES, KEYS, LABELS

import headrace as hr
from headrace.errors import WriteError

if TYPE_CHECKING:
    from pathlib import Path


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
