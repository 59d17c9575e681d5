from __future__ import annotations

import tarfile
from typing import TYPE_CHECKING

import pytest
from tests.conformance.barecat_golden import BUNDLE

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="session")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The archives of the real barecat, unpacked."""
    folder = tmp_path_factory.mktemp("barecat")
    with tarfile.open(BUNDLE) as bundle:
        bundle.extraction_filter = lambda member, _: member  # Python before 3.11.4 has no filters
        bundle.extractall(folder)
    return folder
