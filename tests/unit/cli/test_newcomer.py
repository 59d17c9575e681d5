"""What somebody types who does not know the command yet: the answer says what to type instead."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import pytest

from headrace.cli.main import main

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Said = Callable[..., str]


@pytest.fixture
def here(photos: Path, packed: Path) -> Path:
    """``photos``, ``photos.barecat``, the dataset ``x.beton`` and ``photos.tar``."""
    assert main(["convert", "photos", "photos.tar", "-q"]) == 0
    return photos


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        ("create photos new.beton", "what is written comes first: headrace create new.beton photos"),
        ("create new photos", "no format is known for this. Known endings: ."),
        ("create new.ffr photos --max-side 10", "--max-side is for .beton, and new.ffr holds files as they are"),
        ("create new.barecat photos --mode raw", "--mode is for .beton, and new.barecat holds files as they are"),
        ("ls x.beton cat", "no sample is called 'cat'; names are such as 'cat/a.jpg'"),
        ("tree x.beton", "Look at it with: headrace ls x.beton; or make an archive of it: headrace convert x.beton x."),
        ("tree photos", "photos is not an archive; this verb is for archives (.barecat)"),
        ("merge photos.barecat -o new.tar", "new.tar would not be an archive; give it the ending .barecat"),
        ("sync photos/ new.beton", "new.beton is neither; make it with: headrace convert photos/ new.beton"),
        ("sync photos/ new.zip", "new.zip is neither; make it with: headrace convert photos/ new.zip"),
    ],
)
def test_what_to_type_instead(here: Path, said: Said, line: str, answer: str) -> None:
    before = sorted(os.listdir())
    assert answer in said(*line.split(), code=2)
    assert sorted(os.listdir()) == before


def test_mounting_a_dataset(here: Path, said: Said) -> None:
    (here / "mnt").mkdir()
    assert "x.beton is a dataset of samples" in said("mount", "x.beton", "mnt", code=2)


def test_an_empty_path(said: Said) -> None:
    assert said("info", "", code=2) == "headrace: error: the path is empty\n"


def test_a_folder_that_ends_like_a_file_can_be_synced(here: Path, said: Said) -> None:
    shutil.copytree("photos", "old.beton")
    assert "copied" in said("sync", "photos/", "old.beton")


def test_an_option_before_the_verb(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["--json", "info", "x.beton"])
    assert left.value.code == 2
    assert "--json is an option of verbs, and comes after the verb" in capsys.readouterr().err
