"""Folders and archives for the tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.unit.cli.conftest import photos, said
from tests.unit.formats.barecat.conftest import full, path
from tests.unit.transfer.tools import make_folder

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["folder", "full", "path", "photos", "said"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """See ``make_folder``."""
    return make_folder(tmp_path / "in")
