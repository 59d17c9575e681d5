"""Archives for the tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.unit.formats.barecat.tools import FILES, TEXTS

from headrace.formats.barecat import Archive

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where an archive can be made."""
    return tmp_path / "x.barecat"


@pytest.fixture
def full(path: Path) -> Path:
    """An archive of FILES in several shards."""
    with Archive(path, "x", shard_size=20_000) as archive:
        archive.update(FILES)
    return path


@pytest.fixture
def texts(path: Path) -> Path:
    """An archive of TEXTS."""
    with Archive(path, "x") as archive:
        archive.update(TEXTS)
    return path
