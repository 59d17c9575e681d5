"""A few hundred of the points that ``make soak`` runs all of."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SHARES = 6
POINTS = 80  # of each share


def harness(*options: str) -> None:
    """Run it; what it found is the message of the failure."""
    command = [sys.executable, "-m", "tests.faults", "--jobs", "1", *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=170, check=False)
    if done.returncode == 77:
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("share", range(SHARES))
def test_faults_at_calls(share: int) -> None:
    harness("--points", str(POINTS), "--share", f"{share}/{SHARES}")


@pytest.mark.parametrize("only", ["large.barecat", "create old", "sync"])
def test_full_disks(only: str) -> None:
    harness("--disks", "--step", "9", "--only", only)
