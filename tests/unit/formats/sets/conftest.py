"""The same samples, in one file and in parts of several formats."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from tests.helpers import image_file, picture

import headrace as hr

if TYPE_CHECKING:
    from pathlib import Path

    from headrace import Dataset

COUNT = 24
CUTS = (0, 9, 10, 24)


@dataclass(frozen=True)
class Pictures:
    """JPEGs: all in one .beton, and in three parts, of which one is an .ffr."""

    files: list[bytes]
    whole: Dataset
    parts: list[Dataset]
    folder: Path


@pytest.fixture(scope="session")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Pictures:
    folder = tmp_path_factory.mktemp("pictures")
    files = [image_file(picture(i, 160 + 8 * i, 120 + 4 * i), "JPEG") for i in range(COUNT)]
    fields = {"image": hr.Image()}
    hr.write(folder / "whole.beton", files, fields=fields)
    for number, kind in enumerate(("beton", "ffr", "beton")):
        some = files[CUTS[number] : CUTS[number + 1]]
        options = {"jpeg_index": number == 0} if kind == "beton" else {}
        hr.write(folder / f"part-{number}.{kind}", some, fields=fields, **options)
    hr.index(folder / "part-1.ffr")
    parts = [
        hr.open(folder / "part-0.beton"),
        hr.open(folder / "part-1.ffr", decode="image"),
        hr.open(folder / "part-2.beton"),
    ]
    return Pictures(files, hr.open(folder / "whole.beton"), parts, folder)
