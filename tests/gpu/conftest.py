"""Tests that need a GPU of NVIDIA, torch for CUDA, and a build with kernels; skipped with a word elsewhere.

Run them with: python -m pytest -m gpu tests/gpu -p no:benchmark

Those of test_same_pixels.py also run without a GPU, on a driver that is none: see fake_cuda.py.
"""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.gpu import fake_cuda
from tests.unit.loader.jpegs import OTHER_KINDS, WINDOWED, Files
from tests.unit.loader.tools import write_rows

from headrace._native import gpu_kernels

if TYPE_CHECKING:
    from collections.abc import Iterator

FAKE = os.environ.get("HEADRACE_FAKE_CUDA", "")
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # JAX would take most of the memory for itself


def missing() -> str:
    """What these tests need and is not here; empty when all is."""
    if FAKE:
        return ""
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


@pytest.fixture(autouse=True, scope="session")
def driver() -> Iterator[None]:
    """The one that is none, where it is asked for."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        if FAKE:
            fake_cuda.install(FAKE, monkeypatch)
        yield


@pytest.fixture(scope="session")
def large(tmp_path_factory: pytest.TempPathFactory) -> Files:
    """JPEGs of every kind."""
    return Files.make(tmp_path_factory.mktemp("large"), WINDOWED | OTHER_KINDS)


@pytest.fixture(scope="session")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pictures, some as JPEG and some raw, labels, arrays and texts."""
    return write_rows(tmp_path_factory.mktemp("loader") / "x.beton")
