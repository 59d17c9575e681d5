"""What the driver says when it cannot run the kernels, told by a library that is taken for the driver."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
OPEN = """
import sys
from headrace._native import GpuImageLoader, ImageLoader, NativeError
try:
    GpuImageLoader(0, b"kernels", ImageLoader(1))
except NativeError as error:
    print(error.code, error.detail, sep="\\n")
"""


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a libcuda.so.1 of one GPU, which answers the loading of kernels with the number FAKE_ANSWER."""
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("there is no g++")
    names = set(re.findall(r'"(cu[A-Z]\w+)"', (ROOT / "native/gpu/driver.cpp").read_text()))
    own = {
        "cuDeviceGetCount": "int cuDeviceGetCount(int* count) { *count = 1; return 0; }",
        "cuModuleLoadData": 'int cuModuleLoadData(void**, void*) { return std::atoi(std::getenv("FAKE_ANSWER")); }',
        "cuGetErrorString": 'int cuGetErrorString(int, const char** text) { *text = "as it says"; return 0; }',
    }
    lines = [own.get(name, f"int {name}() {{ return 0; }}") for name in sorted(names)]
    folder = tmp_path_factory.mktemp("driver")
    (folder / "cuda.cpp").write_text('#include <cstdlib>\nextern "C" {\n' + "\n".join(lines) + "\n}\n")
    subprocess.run([compiler, "-shared", "-fPIC", "-o", folder / "libcuda.so.1", folder / "cuda.cpp"], check=True)
    return folder


def opened(driver: Path, answer: int) -> list[str]:
    environment = os.environ | {"LD_LIBRARY_PATH": str(driver), "FAKE_ANSWER": str(answer)}
    command = [sys.executable, "-c", OPEN]
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    return done.stdout.splitlines()


@pytest.mark.parametrize("answer", [200, 209, 218, 221, 222, 223])
def test_a_driver_that_cannot_run_the_kernels_leaves_the_work_to_the_cpu(driver: Path, answer: int) -> None:
    code, detail = opened(driver, answer)
    assert code == "unsupported"
    assert detail == (
        "the kernels were not built for this kind of GPU, or by a later CUDA than its driver knows (as it says)"
    )


@pytest.mark.parametrize(("answer", "code"), [(2, "out_of_memory"), (700, "io_error")])
def test_a_driver_that_fails_is_an_error(driver: Path, answer: int, code: str) -> None:
    assert opened(driver, answer) == [code, "the GPU's driver says: as it says (loading the kernels)"]
