"""A file that becomes shorter while it is in use: an error, never the end of the process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import numpy as np
import pytest

import headrace as hr
from headrace.errors import FormatError

if TYPE_CHECKING:
    from pathlib import Path

COUNT, SIZE = 200, 30_000

PRELUDE = """
import faulthandler, mmap, os, sys
import numpy as np
import headrace as hr
from headrace.errors import FormatError
path = sys.argv[1]

def fails(read):
    try:
        read()
    except FormatError as error:
        assert "became shorter while it was in use" in str(error), error
        return
    raise SystemExit("no error")
"""


def run(script: str, path: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", PRELUDE + script, str(path)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    target = tmp_path / "x.beton"
    rng = np.random.default_rng(0)
    hr.write(
        target,
        [(i, rng.bytes(SIZE), np.full(5, i)) for i in range(COUNT)],
        fields={"label": hr.Int(), "data": hr.Bytes(), "array": hr.NDArray("<i8", (5,))},
    )
    return target


@pytest.mark.parametrize("checksums", [True, False])
def test_a_dataset_cut_short_while_open(path: Path, checksums: bool) -> None:
    script = f"""
for read in (
    lambda d: d[150],
    lambda d: d[100:],
    lambda d: d.read_bytes([150], "data"),
    lambda d: d.read_values(np.array([150]), "array"),
    lambda d: d.verify(),
    lambda d: list(d.sources()[i] for i in (1, 150)),
):
    os.system(f"cp {{path}} {{path}}.copy")
    dataset = hr.open(path + ".copy", checksums={checksums})
    end = int(dataset.table[:, 1].max()) - 2_000_000
    dataset[10]
    os.truncate(path + ".copy", end)
    if not {checksums}:  # they stand at the end of the file
        dataset[10]
    fails(lambda: read(dataset))
    fails(lambda: dataset[10])
"""
    done = run(script, path)
    assert (done.returncode, done.stderr) == (0, "")


def test_pictures_cut_short_while_open(tmp_path: Path) -> None:
    path = tmp_path / "x.beton"
    pictures = np.random.default_rng(0).integers(0, 256, (60, 100, 100, 3), np.uint8)
    hr.write(path, [(p,) for p in pictures], fields={"image": hr.Image(mode="raw")})
    dataset = hr.open(path)
    os.truncate(path, path.stat().st_size // 2)
    with pytest.raises(FormatError, match="became shorter"):
        dataset.image_spans(np.array([50]), "image")


def test_a_forked_child_is_guarded_too(path: Path) -> None:
    script = """
dataset = hr.open(path)
if (child := os.fork()) == 0:
    os.truncate(path, int(dataset.table[:, 1].max()) - 2_000_000)
    fails(lambda: dataset[199])
    os._exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
dataset.check_file()
fails(lambda: dataset[199])
"""
    done = run(script, path)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("when", ["never", "before", "after", "between"])
def test_beside_faulthandler(path: Path, when: str) -> None:
    script = f"""
if {when!r} == "before":
    faulthandler.enable()
dataset = hr.open(path)
if {when!r} in ("after", "between"):
    faulthandler.enable()
if {when!r} == "between":
    other = hr.open(path)
os.truncate(path, int(dataset.table[:, 1].max()) - 2_000_000)
fails(lambda: dataset[199])
"""
    done = run(script, path)
    assert done.returncode == 0
    # Set last, it comes first and prints, but the process lives.
    assert ("Bus error" in done.stderr) == (when == "after")


@pytest.mark.parametrize("how", ["mapping", "sent"])
@pytest.mark.parametrize("when", ["never", "before", "after", "between"])
def test_what_is_not_guarded_still_kills(path: Path, when: str, how: str) -> None:
    script = f"""
if {when!r} == "before":
    faulthandler.enable()
dataset = hr.open(path)
if {when!r} in ("after", "between"):
    faulthandler.enable()
if {when!r} == "between":
    other = hr.open(path)
if {how!r} == "sent":
    os.kill(os.getpid(), {int(signal.SIGBUS)})
with open(path, "rb") as file:
    unguarded = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
os.truncate(path, 10)
unguarded[-1]
"""
    done = run(script, path)
    assert done.returncode == -signal.SIGBUS
    assert done.stderr.count("Bus error") == (when != "never")
