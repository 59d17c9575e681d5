"""Versions of the schema."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.unit.formats.barecat.tools import TEXTS, spoil

import headrace
from headrace.cli.main import main

if TYPE_CHECKING:
    from pathlib import Path


def test_archives_of_schema_0_2_open_by_their_name(texts: Path, tmp_path: Path) -> None:
    spoil(texts, "UPDATE config SET value_int = 2 WHERE key = 'schema_version_minor'")
    texts.rename(f"{texts}-sqlite-index")
    assert len(headrace.open(texts)) == len(TEXTS)
    assert headrace.verify(texts).ok
    assert main(["convert", str(texts), str(tmp_path / "x.tar"), "-q"]) == 0
    with pytest.raises(FileNotFoundError, match="does not exist"):
        headrace.open(tmp_path / "y.barecat")
