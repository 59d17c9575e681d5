"""The whole way of a batch to a GPU, without one: the driver is a library of ours, and kernels run on the CPU."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
COMPILER = shutil.which(os.environ.get("CXX", "g++"))
SOURCES = ("native/tests/gpu/fake_cuda.cpp", "native/gpu/grid.cpp")
FLAGS = ("-std=c++20", "-O2", "-ffp-contract=off", "-fPIC", "-shared", "-Wl,-soname,libcuda.so.1")
FOLDERS = ("-Inative", "-Inative/include")
# As much as a minute allows; with a GPU, all of them run.
CHOSEN = (
    "fake_driver or kinds_of_jpegs or types_and_layouts or (steps and many) or qualities or restart or damage "
    "or indices_that or whole_pictures or (sizes and area) or (filters and lanczos and size2) or reading_ahead "
    "or (any_number and 24) or that_grow or fetching"
)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The driver that is none."""
    target = tmp_path_factory.mktemp("cuda") / "libcuda.so.1"
    subprocess.run([str(COMPILER), *FLAGS, *FOLDERS, *SOURCES, "-o", str(target)], cwd=ROOT, check=True)
    return target


@pytest.mark.skipif(COMPILER is None, reason="there is no C++ compiler")
@pytest.mark.timeout(600)
def test_batches_of_a_gpu_that_is_none(library: Path) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:randomly", "-p", "no:cacheprovider", "-m", "gpu"]
    done = subprocess.run(
        [*command, "tests/gpu", "-k", CHOSEN],
        cwd=ROOT,
        env=os.environ | {"HEADRACE_FAKE_CUDA": str(library)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
    assert " passed" in done.stdout
