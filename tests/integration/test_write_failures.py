"""Whatever goes wrong while writing: a clear error, promptly, and a clean directory."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.helpers import MIB, Failing, Killed, Slow

import headrace as hr
from headrace.errors import WorkerDiedError, WriteError

if TYPE_CHECKING:
    from collections.abc import Iterator

FIELDS: dict[str, Any] = {"label": hr.Int(), "blob": hr.Bytes()}
ROOT = Path(__file__).parents[2]
KINDS = [("thread", 1), ("thread", 3), ("process", 1), ("process", 3)]


@pytest.fixture(params=[False, True], ids=["new", "existing"])
def target(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    """A path to write to, with or without a file there already; afterwards nothing may have changed."""
    path = tmp_path / "x.beton"
    if request.param:
        path.write_bytes(b"precious")
    yield path
    assert os.listdir(tmp_path) == (["x.beton"] if request.param else [])
    if request.param:
        assert path.read_bytes() == b"precious"


@pytest.mark.parametrize(("kind", "workers"), KINDS)
@pytest.mark.parametrize("bad", [0, 500, 1999])
def test_a_dataset_that_raises(target: Path, kind: Any, workers: int, bad: int) -> None:
    start_s = time.monotonic()
    with pytest.raises(WriteError) as caught:
        hr.write(target, Failing(2000, bad), fields=FIELDS, force=True, worker_kind=kind, workers=workers)
    assert time.monotonic() - start_s < 10
    error = caught.value
    assert (error.sample, error.source) == (bad, bad)
    assert f"sample {bad} could not be fetched: ZeroDivisionError: no sample at {bad}" in str(error)
    text = "".join(traceback.format_exception(error))
    assert "raise ZeroDivisionError" in text, "the original traceback is reachable"
    assert "helpers.py" in text


def test_the_index_of_the_source_is_told_too(target: Path) -> None:
    with pytest.raises(WriteError, match=r"sample 2 \(index 7 of the source\)") as caught:
        hr.write(target, Failing(20, 7), fields=FIELDS, force=True, indices=[5, 6, 7, 8])
    assert (caught.value.sample, caught.value.source) == (2, 7)


@pytest.mark.parametrize("workers", [1, 3])
def test_a_worker_that_is_killed(target: Path, workers: int) -> None:
    start_s = time.monotonic()
    with pytest.raises(WorkerDiedError, match="killed, ran out of memory or crashed") as caught:
        hr.write(target, Killed(5000, 1234), fields=FIELDS, force=True, worker_kind="process", workers=workers)
    assert time.monotonic() - start_s < 10
    assert str(caught.value).endswith("Nothing was written. Try fewer workers, or worker_kind='thread'.")
    assert caught.value.fix == "Try fewer workers, or worker_kind='thread'."


def test_slow_threads_do_not_hold_up_a_failure(target: Path) -> None:
    class FailsLater(Slow):
        def __getitem__(self, i: int) -> tuple[int, bytes]:
            if i == 1500:
                raise RuntimeError("late")
            time.sleep(0.0 if i < 1400 else 0.02)
            return i, b"x"

    start_s = time.monotonic()
    with pytest.raises(WriteError, match="sample 1500"):
        hr.write(target, FailsLater(9000, 0), fields=FIELDS, force=True, worker_kind="thread", workers=4)
    assert time.monotonic() - start_s < 8, "chunks under way would take 20 s each"


def test_no_process_and_no_thread_is_left(target: Path) -> None:
    import multiprocessing
    import threading

    for kind in ("thread", "process"):
        with pytest.raises(WriteError):
            hr.write(target, Failing(2000, 1000), fields=FIELDS, force=True, worker_kind=kind, workers=3)
        assert not multiprocessing.active_children()
        assert not [t for t in threading.enumerate() if t.name.startswith("headrace")]


# -- the whole process ----------------------------------------------------------------------------------------

SCRIPT = """
import faulthandler, signal, sys
faulthandler.dump_traceback_later(12)  # what it does when it does not end
signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job of a shell begins with it ignored
import headrace as hr
from tests.helpers import Slow
print("ready", flush=True)
hr.write(sys.argv[1], Slow(100_000, 0.002), fields={"label": hr.Int(), "blob": hr.Bytes()}, force=True,
         worker_kind=sys.argv[2], workers=int(sys.argv[3]), progress=lambda *told: print(told, flush=True))
"""


def writing(path: Path, kind: str, workers: int) -> subprocess.Popen[str]:
    """A process that is in the middle of writing."""
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(path), kind, str(workers)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    assert process.stdout.readline().startswith("(")
    return process


def last_words(process: subprocess.Popen[str]) -> str:
    """What a process that should be ending says on standard error; it is ended if it does not."""
    try:
        return process.communicate(timeout=20)[1]
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        return process.communicate()[1]


def wait_until_gone(group: int) -> None:
    for _ in range(100):
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return
        time.sleep(0.05)
    os.killpg(group, signal.SIGKILL)
    pytest.fail("worker processes outlived the writer by 5 s")


@pytest.mark.parametrize(("kind", "workers"), KINDS)
@pytest.mark.parametrize("whole_group", [True, False], ids=["ctrl-c", "kill -INT"])
def test_interrupted(target: Path, kind: str, workers: int, whole_group: bool) -> None:
    process = writing(target, kind, workers)
    send = os.killpg if whole_group else os.kill
    start_s = time.monotonic()
    send(process.pid, signal.SIGINT)
    errors = last_words(process)
    assert time.monotonic() - start_s < 10, errors
    assert process.returncode in (-signal.SIGINT, 130, 1)
    assert "KeyboardInterrupt" in errors
    wait_until_gone(process.pid)


@pytest.mark.parametrize("kind", ["thread", "process"])
def test_killed_without_mercy(target: Path, kind: str) -> None:
    process = writing(target, kind, 2)
    process.kill()
    last_words(process)
    wait_until_gone(process.pid)


# -- where the file goes --------------------------------------------------------------------------------------


def test_a_directory_that_is_missing(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"nowhere does not exist.*mkdir -p"):
        hr.write(tmp_path / "nowhere" / "x.beton", [(1, b"")], fields=FIELDS, force=True)
    assert not os.listdir(tmp_path)


def test_a_target_that_is_a_directory(tmp_path: Path) -> None:
    (tmp_path / "x.beton").mkdir()
    with pytest.raises(IsADirectoryError, match=r"x\.beton is a directory"):
        hr.write(tmp_path / "x.beton", [(1, b"")], fields=FIELDS, force=True)


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
def test_a_directory_that_is_read_only(tmp_path: Path) -> None:
    tmp_path.chmod(0o555)
    try:
        with pytest.raises(PermissionError, match="cannot create a file in this directory"):
            hr.write(tmp_path / "x.beton", [(1, b"")], fields=FIELDS, force=True)
    finally:
        tmp_path.chmod(0o755)


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    disk = tmp_path / "disk"
    disk.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=12m", "tmpfs", str(disk)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True, check=False).returncode != 0:
        pytest.skip("a tmpfs cannot be mounted here")
    try:
        yield disk
    finally:
        subprocess.run(["umount", str(disk)], check=True)


@pytest.mark.parametrize("workers", [1, 3])
def test_a_full_disk(tiny_disk: Path, workers: int) -> None:
    path = tiny_disk / "x.beton"
    samples = [(i, bytes([i]) * MIB) for i in range(30)]
    with pytest.raises(OSError, match="No space left on device") as caught:
        hr.write(path, samples, fields=FIELDS, force=True, page_size=2 * MIB, workers=workers)
    assert caught.value.errno == errno.ENOSPC
    assert str(path) in str(caught.value)
    assert os.listdir(tiny_disk) == []
    assert os.statvfs(tiny_disk).f_bfree * os.statvfs(tiny_disk).f_bsize > 11 * MIB, "the space is free again"
    hr.write(path, samples[:5], fields=FIELDS, force=True, page_size=2 * MIB)
    assert hr.verify(path).ok


def test_a_disk_that_is_full_at_the_very_end(tiny_disk: Path) -> None:
    """The data fit, the metadata of a length that was not known does not."""
    path = tiny_disk / "x.beton"
    samples = ((i, b"x" * 40) for i in range(200_000))
    with pytest.raises(OSError, match="No space left on device"):
        hr.write(path, samples, fields=FIELDS, force=True, page_size=2 * MIB)
    assert os.listdir(tiny_disk) == []
