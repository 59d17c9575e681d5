"""Tests that need a GPU of NVIDIA, torch for CUDA, and a build with kernels; skipped with a word elsewhere.

Run them with: python -m pytest -m gpu tests/gpu -p no:benchmark
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest
from tests.unit.loader.jpegs import OTHER_KINDS, WINDOWED, Files
from tests.unit.loader.tools import write_rows

from headrace._native import gpu_kernels


def missing() -> str:
    """What these tests need and is not here; empty when all is."""
    try:
        torch: Any = importlib.import_module("torch")
    except ImportError:
        return "torch is not installed"
    if torch.version.cuda is None or not torch.cuda.is_available():
        return "torch finds no GPU of NVIDIA"
    return "" if gpu_kernels() is not None else "this build of headrace has no kernels for GPUs"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = [item for item in items if Path(__file__).parent in item.path.parents]
    reason = missing() if here else ""
    for item in here:
        item.add_marker(pytest.mark.gpu)
        item.add_marker(pytest.mark.filterwarnings("ignore:::torch"))  # what torch has to say of itself
        if reason:
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session")
def large(tmp_path_factory: pytest.TempPathFactory) -> Files:
    """JPEGs of every kind."""
    return Files.make(tmp_path_factory.mktemp("large"), WINDOWED | OTHER_KINDS)


@pytest.fixture(scope="session")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pictures, some as JPEG and some raw, labels, arrays and texts."""
    return write_rows(tmp_path_factory.mktemp("loader") / "x.beton")
