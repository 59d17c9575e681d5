from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.unit.formats.picture_folder import FILES, KEYS, LABELS

import headrace as hr
from headrace.errors import BrokenPicturesError, ImageError, WriteError

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
    with pytest.raises(WriteError, match=r"1 picture of 4 cannot be stored.*b\.jpg"):
        hr.pack(tmp_path / "x.beton", folder)
    assert not (tmp_path / "x.beton").exists()


def test_pack_says_what_was_left_out(folder: Path, tmp_path: Path) -> None:
    (folder / "cat" / "b.jpg").write_bytes(b"not a picture")
    (folder / "cat" / "notes").write_bytes(b"")
    with pytest.raises(BrokenPicturesError) as caught:
        hr.pack(tmp_path / "x.beton", folder)
    assert isinstance(caught.value.__cause__, ImageError)
    broken = ["cat/b.jpg: not a picture that can be decoded; it starts with b'not a pi'"]
    assert caught.value.broken == broken
    done = hr.pack(tmp_path / "x.beton", folder, skip_broken=True, shuffle_seed=3)
    assert (done.samples, done.broken) == (3, broken)
    assert done.size_bytes == (tmp_path / "x.beton").stat().st_size
    assert "cat/notes: not a picture by its ending" in done.skipped
    assert done.fields == {"image": "image", "label": "int, 3 classes"}
    dataset = hr.open(tmp_path / "x.beton")
    assert sorted(dataset.keys or ()) == [key for key in KEYS if key != "cat/b.jpg"]
    for key, label in zip(dataset.keys or (), dataset.column("label"), strict=True):
        assert LABELS[KEYS.index(key)] == label
    with pytest.raises(ValueError, match=r"x\.ffr takes files as they are; leave out skip_broken"):
        hr.pack(tmp_path / "x.ffr", folder, skip_broken=True)
    assert hr.pack(tmp_path / "x.ffr", folder).files == hr.pack(tmp_path / "x.barecat", folder).files > 4
