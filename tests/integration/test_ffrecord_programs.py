"""Programs written for FFRecord, run unchanged by the launcher: as scripts, as modules, under pytest.

They stand in the folder ffrecord_programs, import nothing but ffrecord, torch and numpy, and check their own results.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent / "ffrecord_programs"
needs_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="ffrecord.torch needs torch")
pytestmark = pytest.mark.timeout(300)

# The last line that a program prints when all is well.
WITHOUT_TORCH = {"reading": "read and written: 100", "converting": "dumped: [26, ", "packing": "packed: 21"}
WITH_TORCH = {"own_getitem": "own style: 60", "distributed": "shared: 50 50"}


def launch(*words: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error::RuntimeWarning", "-m", "headrace.compat", *map(str, words)]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=280, check=False)


def check(result: subprocess.CompletedProcess[str], last_line: str) -> None:
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.splitlines()[-1].startswith(last_line), result.stdout


def test_every_program_is_run() -> None:
    others = {"suite_calls", "training"}
    assert {path.stem for path in FOLDER.glob("*.py")} == {*WITHOUT_TORCH, *WITH_TORCH, *others}


@pytest.mark.parametrize("name", WITHOUT_TORCH)
def test_as_a_script(tmp_path: Path, name: str) -> None:
    check(launch("run", FOLDER / f"{name}.py", tmp_path, cwd=tmp_path), WITHOUT_TORCH[name])


def test_as_a_module(tmp_path: Path) -> None:
    result = launch("-m", "ffrecord_programs.reading", tmp_path, cwd=FOLDER.parent)
    check(result, WITHOUT_TORCH["reading"])


@needs_torch
@pytest.mark.parametrize("name", WITH_TORCH)
def test_with_torch(tmp_path: Path, name: str) -> None:
    check(launch("run", FOLDER / f"{name}.py", tmp_path, cwd=tmp_path), WITH_TORCH[name])


@needs_torch
@pytest.mark.parametrize("method", ["default", "fork", "spawn", "forkserver"])
def test_training(tmp_path: Path, method: str) -> None:
    result = launch("run", FOLDER / "training.py", tmp_path, method, cwd=tmp_path)
    check(result, f"trained and resumed: 60 steps by {method}")


@needs_torch
def test_as_tests(tmp_path: Path) -> None:
    """The calls of FFRecord's own tests, under pytest; a configuration of its own keeps this project's away."""
    (tmp_path / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n")
    options = (
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:benchmark",
        "-c",
        tmp_path / "pytest.ini",
        "--rootdir",
        tmp_path,
        "--noconftest",
    )
    result = launch("pytest", *options, FOLDER / "suite_calls.py", cwd=tmp_path)
    assert result.returncode == 0, result.stdout[-5000:]
    assert "25 passed" in result.stdout
