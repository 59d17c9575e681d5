"""Programs written for FFCV, run unchanged by the launcher: as scripts, as modules, under pytest.

They stand in the folder ffcv_programs, import nothing but ffcv, torch and numpy, and check their own results.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

FOLDER = Path(__file__).parent / "ffcv_programs"
pytestmark = pytest.mark.timeout(300)

# The last line that a program prints when all is well.
PROGRAMS = {
    "writing_images": "chosen and shuffled samples are in their places",
    "writing_arrays": "all fields came back: 50",
    "loading": "refused: SimpleRGBImageDecoder takes pictures of one size",
    "pipeline_specs": "refused: Source can't be a node and also have a decoder",
    "custom_transform": "own transforms, compiled and plain: 33 samples each",
    "shared_state": "pictures and masks are cut at the same places",
    "custom_field": "refused: Must specify a custom_field entry for custom field text",
    "custom_order": "own orders: ",
    "linear_regression": "mean squared error below a thousandth after 21 epochs",
    "cifar": "trained: 90 test pictures, nearly all right",
    "filtering": "filtered: 18 of 200",
    "reader_internals": "the C functions copy, resize and read",
    "progressive": "grew to 40",
    "distributed": "QUASI_RANDOM over 3 processes: 34 samples",
}


def launch(*words: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error::RuntimeWarning", "-m", "headrace.compat", *map(str, words)]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=280, check=False)


def check(result: subprocess.CompletedProcess[str], last_line: str) -> None:
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.splitlines()[-1].startswith(last_line), result.stdout


def test_every_program_is_run() -> None:
    others = {"suite_calls", "exchange"}
    assert {path.stem for path in FOLDER.glob("*.py")} == set(PROGRAMS) | others


@pytest.mark.parametrize("name", PROGRAMS)
def test_as_a_script(tmp_path: Path, name: str) -> None:
    check(launch("run", FOLDER / f"{name}.py", tmp_path, cwd=tmp_path), PROGRAMS[name])


@pytest.mark.parametrize("words", [("run", "-m"), ("-m",)])
def test_as_a_module(tmp_path: Path, words: tuple[str, ...]) -> None:
    result = launch(*words, "ffcv_programs.custom_transform", tmp_path, cwd=FOLDER.parent)
    check(result, PROGRAMS["custom_transform"])


def test_as_tests(tmp_path: Path) -> None:
    """The calls of FFCV's own tests, under pytest; a configuration of its own keeps this project's away."""
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    options = ("-q", "-p", "no:cacheprovider", "-c", tmp_path / "pytest.ini", "--rootdir", tmp_path, "--noconftest")
    result = launch("pytest", *options, FOLDER / "suite_calls.py", cwd=tmp_path)
    assert result.returncode == 0, result.stdout[-5000:]
    assert "109 passed, 1 skipped" in result.stdout


def test_started_by_torchrun(tmp_path: Path) -> None:
    """Processes that the program starts find headrace under FFCV's name, too."""
    (tmp_path / "train.py").write_text(
        """
import ffcv, json, os, sys
from ffcv.loader import Loader, OrderOption
options = {"order": OrderOption.QUASI_RANDOM, "distributed": True, "pipelines": {"blob": None}}
numbers = [int(n) for (batch,) in Loader(sys.argv[1], 4, 1, **options) for n in batch]
with open(f"{sys.argv[1]}.{os.environ['RANK']}", "w") as file:
    json.dump([ffcv.__name__, numbers], file)
"""
    )
    (tmp_path / "write.py").write_text(
        """
import sys, numpy
from ffcv.fields import BytesField, IntField
from ffcv.writer import DatasetWriter
samples = [(i, numpy.zeros(9, numpy.uint8)) for i in range(16)]
DatasetWriter(sys.argv[1], {"n": IntField(), "blob": BytesField()}).from_indexed_dataset(samples)
"""
    )
    data = tmp_path / "data"
    assert launch("run", "write.py", data, cwd=tmp_path).returncode == 0
    arguments = ("--standalone", "--log-dir", "logs", "--nproc-per-node", "2", "train.py", data)
    result = launch("-m", "torch.distributed.run", *arguments, cwd=tmp_path)
    assert result.returncode == 0, result.stderr[-3000:]
    ranks = [json.loads(Path(f"{data}.{rank}").read_text()) for rank in range(2)]
    assert [name for name, _ in ranks] == ["headrace.compat.ffcv"] * 2
    assert sorted(ranks[0][1] + ranks[1][1]) == list(range(16))
