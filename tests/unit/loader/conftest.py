"""Datasets that the tests of the loader share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.unit.loader.tools import write_pages, write_rows

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="session")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pictures, labels, arrays and texts on one page."""
    return write_rows(tmp_path_factory.mktemp("loader") / "x.beton")


@pytest.fixture(scope="session")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Labels and blobs on seven pages."""
    return write_pages(tmp_path_factory.mktemp("pages") / "pages.beton")
