"""Shared by all tests: golden files, small pictures, temporary datasets."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from tests.helpers import picture

__all__ = ["GOLDEN", "GOLDEN_NAMES", "golden_dir", "manifest", "picture"]

# A busy machine is no failure.
settings.register_profile("headrace", deadline=None)
settings.load_profile("headrace")

GOLDEN = Path(__file__).parent / "golden" / "beton"
GOLDEN_NAMES: list[str] = json.loads((GOLDEN / "INDEX.json").read_text())["files"]


@pytest.fixture(scope="session")
def golden_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The golden files, unpacked."""
    target = tmp_path_factory.mktemp("golden")
    for name in GOLDEN_NAMES:
        (target / f"{name}.beton").write_bytes(gzip.decompress((GOLDEN / f"{name}.beton.gz").read_bytes()))
    return target


def manifest(name: str) -> dict[str, Any]:
    """What a golden file must decode to."""
    value: dict[str, Any] = json.loads((GOLDEN / f"{name}.json").read_text())
    return value
