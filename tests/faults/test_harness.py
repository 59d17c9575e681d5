"""The harness does what it says, and forgets no verb."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.faults.scenarios import READING, WITHOUT, all_scenarios
from tests.faults.supervisor import Request, supervised, why_not

from headrace.cli.main import build_parser

ROOT = Path(__file__).parents[2]
needs_supervisor = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))


def test_every_verb_that_writes_is_tried() -> None:
    verbs = next(action.choices for action in build_parser()._actions if action.dest == "verb")
    assert verbs is not None
    tried = {scenario.verb for scenario in all_scenarios()}
    assert set(verbs) == tried | set(READING) | set(WITHOUT)
    assert not tried & set(READING)


def test_names_of_scenarios_are_different() -> None:
    names = [scenario.name for scenario in all_scenarios()]
    assert len(names) == len(set(names))


def write_twice(folder: Path) -> int:
    """Two files, the second by a loop that goes on after a short write."""
    (folder / "one").write_bytes(b"0123456789")
    fd = os.open(folder / "two", os.O_CREAT | os.O_WRONLY)
    try:
        data = b"abcdefghij"
        while data:
            data = data[os.write(fd, data) :]
    except OSError as error:
        return error.errno or 1
    os.fsync(fd)
    return 0


@needs_supervisor
def test_calls_are_counted_for_one_folder_only(tmp_path: Path) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()

    def work() -> int:
        (tmp_path / "outside").write_bytes(b"x")
        return write_twice(inside)

    run = supervised(work, lambda request: None, folder=str(inside))
    assert run.status == 0
    assert run.calls == ["openat", "write", "openat", "write", "fsync"]
    assert run.paths == ["one", "one", "two", "two", "two"]
    assert (inside / "two").read_bytes() == b"abcdefghij"


@needs_supervisor
def test_a_short_write_writes_half(tmp_path: Path) -> None:
    run = supervised(
        lambda: write_twice(tmp_path), lambda request: "short" if request.number == 4 else None, folder=str(tmp_path)
    )
    assert run.calls == ["openat", "write", "openat", "write", "write", "fsync"]
    assert (tmp_path / "two").read_bytes() == b"abcdefghij"


@needs_supervisor
def test_a_torn_write_writes_half_and_kills(tmp_path: Path) -> None:
    run = supervised(
        lambda: write_twice(tmp_path), lambda request: "torn" if request.number == 4 else None, folder=str(tmp_path)
    )
    assert run.status == -9
    assert (tmp_path / "two").read_bytes() == b"abcde"


@needs_supervisor
def test_errors_and_kills_come_at_the_call(tmp_path: Path) -> None:
    def fail(request: Request) -> int | None:
        return errno.EDQUOT if request.path == "two" and request.name == "write" else None

    assert supervised(lambda: write_twice(tmp_path), fail, folder=str(tmp_path)).status == errno.EDQUOT
    assert (tmp_path / "two").read_bytes() == b""
    (tmp_path / "one").unlink()
    run = supervised(lambda: write_twice(tmp_path), lambda request: "kill", folder=str(tmp_path))
    assert (run.status, run.calls) == (-9, ["openat"])
    assert not (tmp_path / "one").exists()


@needs_supervisor
def test_a_process_that_does_not_end_is_ended(tmp_path: Path) -> None:
    def work() -> int:
        import time

        time.sleep(60)
        return 0

    assert supervised(work, lambda request: None, folder=str(tmp_path), timeout_s=0.2).is_hung


def harness(*options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.faults", "--only", "index x.ffr", "--fault", "kill", *options]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.slow
@needs_supervisor
def test_a_run_goes_on_where_its_log_ends(tmp_path: Path) -> None:
    log = str(tmp_path / "log")
    first = harness("--jobs", "16", "--skip", "2", "--log", log)
    assert first.returncode == 0, first.stdout + first.stderr
    outcomes = [json.loads(line) for line in Path(log).read_text().splitlines()]
    second = harness("--jobs", "2", "--without", log, "--log", log)
    assert second.returncode == 0, second.stdout + second.stderr
    assert "\n2 points in" in second.stdout
    numbers = [json.loads(line)["number"] for line in Path(log).read_text().splitlines()]
    assert sorted(numbers) == list(range(1, len(outcomes) + 3))


@pytest.mark.slow
@needs_supervisor
def test_no_point_begins_after_the_time(tmp_path: Path) -> None:
    done = harness("--jobs", "2", "--seconds", "0.001")
    assert done.returncode == 0, done.stdout + done.stderr
    words = next(line.split() for line in done.stdout.splitlines() if line.startswith("index"))
    assert (words[1], words[4]) == ("ffr", "0")
    assert "\n0 of " in done.stdout
