"""Pictures of an archive by number, and the indices of its JPEGs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.helpers import picture

from headrace.codecs import jpeg
from headrace.formats.barecat import Archive, BarecatDataset
from headrace.formats.barecat.pictures import Pictures

if TYPE_CHECKING:
    from pathlib import Path


def test_pictures_are_numbered_by_path(path: Path) -> None:
    photos = {name: jpeg.encode(picture(i, 16, 24)) for i, name in enumerate(("b/2.jpg", "a/1.JPEG", "c.jpe"))}
    with Archive(path, "x") as archive:
        archive.update(photos | {"notes.txt": b"no picture"})
    with Archive(path) as archive:
        pictures = Pictures(archive, is_checked=True)
        assert pictures.numbers(["c.jpe", "a/1.JPEG"]).tolist() == [2, 0]
        assert pictures.stored(0, 2) == [photos["a/1.JPEG"], photos["b/2.jpg"]]
        assert pictures.tile_index is None
        facts = pictures.facts
    with Archive(path, "a") as archive:
        archive["more.txt"] = b"not bound to what is no picture"
    with Archive(path) as archive:
        assert Pictures(archive, is_checked=True).facts == facts
    with Archive(path, "a") as archive:
        archive.rename("c.jpe", "d.jpe")
    with Archive(path) as archive:
        assert Pictures(archive, is_checked=True).facts != facts


def test_indices_beside_the_archive_are_found(path: Path) -> None:
    with Archive(path, "x") as archive:
        archive["a.jpg"] = jpeg.encode(picture(1, 64, 64))
    BarecatDataset(path).index_jpegs()
    with Archive(path) as archive:
        assert Pictures(archive, is_checked=True).tile_index is not None
