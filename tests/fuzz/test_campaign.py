"""A campaign ends at its time and says what happened, whatever its processes do. No atheris is needed here."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

import pytest
from tests.fuzz.campaign import NAMES, Campaign, _parse
from tests.fuzz.note import Note
from tests.fuzz.targets import TARGETS

if TYPE_CHECKING:
    from pathlib import Path

# What stands in for a worker: python SCRIPT -m MODULE TARGET NOTE FOLDER ...
WORKER = """
import os, signal, sys, time
from tests.fuzz.note import Note
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGALRM):
    signal.signal(number, signal.SIG_IGN)
target, note = sys.argv[3], Note(sys.argv[4])
print(" cov: 7 ft: 9", flush=True)
note.begin(b"good", time.monotonic())
note.end()
note.begin(b"bad", time.monotonic())
if target == "tar":
    os.abort()
time.sleep(600)
"""


def test_the_names_are_those_of_the_targets() -> None:
    assert tuple(TARGETS) == NAMES


def test_a_note_outlives_its_process(tmp_path: Path) -> None:
    one = Note(tmp_path / "note")
    one.begin(b"abc", 5.0)
    one.end()
    one.begin(b"de", 6.0)
    other = Note(tmp_path / "note")
    assert (other.runs, other.begun_s, other.input) == (2, 6.0, b"de")


@pytest.mark.slow
@pytest.mark.parametrize("target", ["zip", "tar"])
def test_a_target_that_hangs_or_dies_is_a_finding(
    target: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "worker.py").write_text(WORKER)
    args = _parse(["--seconds", "3", "--jobs", "2", "--timeout", "-4", "--out", str(tmp_path / "out"), target])
    campaign = Campaign(args, tmp_path)
    campaign._python = [sys.executable, str(tmp_path / "worker.py")]
    start_s = time.monotonic()
    campaign.run()
    assert time.monotonic() - start_s < 6
    assert all(worker.process is None for worker in campaign._workers.values())
    assert campaign.summarize() > 0
    (name,) = campaign.findings()
    assert name.startswith(f"{target}-killed-")
    assert (tmp_path / "out" / "findings" / name).read_bytes() == b"bad"
    said = (tmp_path / "out" / "summary.txt").read_text()
    assert said == capfd.readouterr().out
    assert f"{target}-1" in said
    assert {worker.note.runs > 1 for worker in campaign._workers.values()} == {True}
