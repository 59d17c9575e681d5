"""Listings come in the order of the original, and directories have the rows that it gives them."""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path
from typing import Any

import pytest

import headrace.compat.barecat
from headrace.compat.barecat import Barecat, BarecatFileInfo, NotADirectoryBarecatError
from headrace.formats.barecat import Archive

GOLDEN = Path(__file__).parents[3] / "golden" / "barecat_order"
EXPECTED: dict[str, dict[str, Any]] = json.loads((GOLDEN / "expected.json").read_text())


@pytest.fixture(scope="module")
def found() -> dict[str, dict[str, Any]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "barecat", headrace.compat.barecat)
        answers: dict[str, dict[str, Any]] = runpy.run_path(str(GOLDEN / "record.py"))["record"]()
    return answers


@pytest.mark.parametrize("tree", EXPECTED)
def test_all_answers_are_those_of_the_original(tree: str, found: dict[str, dict[str, Any]]) -> None:
    assert found[tree] == EXPECTED[tree]


def test_an_archive_of_our_own_has_its_directories_in_the_order_of_creation(path: str) -> None:
    names = ["zoo/b/1", "ant/1", "zoo/a/1", "ant/deep/er/1"]
    with Archive(path, "x") as archive:
        for name in names[:2]:
            archive[name] = b"1"
        archive.commit()
        for name in names[2:]:
            archive[name] = b"1"
    with Archive(path) as archive:
        assert [info.path for info in archive.dirs()] == [
            *("", "zoo/b", "zoo", "ant"),
            *("zoo/a", "ant/deep/er", "ant/deep"),
        ]
        assert archive.listdir() == ["zoo", "ant"]
        assert archive.verify().ok


def test_one_open_directory_in_a_pattern(path: str) -> None:
    with Barecat(path, readonly=False) as bc:
        for name in ("b/1/x", "a/1/x", "c/2/x", "d/1/y"):
            bc[name] = b"1"
        bc.mkdir("empty")
        assert bc.glob("*/1/x") == ["b/1/x", "a/1/x"]
        assert [info.path for info in bc.index.iterglob_infos("*/1/x")] == ["b/1/x", "a/1/x"]
        assert bc.glob("*/1/") == ["b/1/", "a/1/", "d/1/"]
        assert bc.globfiles("*/1") == []
        assert bc.glob("*/") == ["b/", "a/", "c/", "d/", "empty/"]  # the original leaves out empty ones


def test_missing_directories_that_are_files(path: str) -> None:
    refused = pytest.raises(NotADirectoryBarecatError, match="exists as a file")
    with Barecat(path, readonly=False) as bc, refused, bc.index.bulk_mode():
        bc.index.add_files([BarecatFileInfo(name, shard=0, offset=0, size=0) for name in ("a", "a/b")])
