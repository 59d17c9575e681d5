"""Shared by all tests: golden files, small pictures, temporary datasets."""

from __future__ import annotations

import gzip
import json
import signal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from tests.helpers import picture

__all__ = ["GOLDEN", "GOLDEN_NAMES", "golden_dir", "manifest", "picture"]

# A busy machine is no failure.
settings.register_profile("headrace", deadline=None)
settings.load_profile("headrace")

# Minutes of killed processes, repeated runs and pages of documentation: for make test-all.
SLOW = ("docs/", "faults/", "integration/")

GOLDEN = Path(__file__).parent / "golden" / "beton"
GOLDEN_NAMES: list[str] = json.loads((GOLDEN / "INDEX.json").read_text())["files"]


def pytest_configure() -> None:
    # A background job of a shell begins with the interrupt ignored, and so would the processes that tests start.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    tests = Path(__file__).parent
    for item in items:
        if item.path.relative_to(tests).as_posix().startswith(SLOW):
            item.add_marker(pytest.mark.slow)


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
