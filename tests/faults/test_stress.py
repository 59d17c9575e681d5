"""Five seconds of what ``make soak`` does for ten minutes: many readers beside one writer."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("options", [(), ("--wal",)], ids=["plain", "wal"])
def test_readers_beside_a_writer(options: tuple[str, ...]) -> None:
    command = [sys.executable, "-m", "tests.faults.stress", "--seconds", "5", *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=170, check=False)
    assert [line for line in done.stdout.splitlines() if "FINDING" in line] == []
    assert done.returncode == 0, done.stdout + done.stderr
