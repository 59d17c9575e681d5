"""Datasets that the tests of the loader share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.unit.loader.jpegs import LEVELS, OTHER_KINDS, WINDOWED, Files
from tests.unit.loader.tools import write_pages, write_rows

from headrace import _native

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="session")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pictures, labels, arrays and texts on one page."""
    return write_rows(tmp_path_factory.mktemp("loader") / "x.beton")


@pytest.fixture(scope="session")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Labels and blobs on seven pages."""
    return write_pages(tmp_path_factory.mktemp("pages") / "pages.beton")


@pytest.fixture(scope="session")
def large(tmp_path_factory: pytest.TempPathFactory) -> Files:
    """JPEGs of every kind."""
    return Files.make(tmp_path_factory.mktemp("large"), WINDOWED | OTHER_KINDS)


@pytest.fixture(params=LEVELS)
def level(request: pytest.FixtureRequest) -> Iterator[str]:
    """Every instruction set that the processor has, in use."""
    before = _native.simd_level()
    _native.set_simd_level(request.param)
    yield request.param
    _native.set_simd_level(before)
