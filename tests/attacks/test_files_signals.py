"""Writers that are interrupted, stopped or killed, and disks that cannot be written."""

from __future__ import annotations

import io
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from typing import TYPE_CHECKING

import pytest

from headrace.cli import main as command
from headrace.cli.main import main
from headrace.storage import remove_leftovers

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_RUN = """
import os, signal, sys, time
if sys.argv.pop(1) == "named":
    del os.O_TMPFILE  # as on a file system that has no nameless files
count, close = 0, os.close
def close_slowly(fd):  # so that it is not done before it can be interrupted
    global count
    close(fd)
    count += 1
    if count % 50 == 0:
        time.sleep(0.05)
os.close = close_slowly
from headrace.cli.main import main
signal.signal(signal.SIGINT, signal.default_int_handler)
print("ready", flush=True)
sys.exit(main(sys.argv[1:]))
"""
FILES = 2000


def _content(number: int) -> bytes:
    return b"%d" % number * 100


@pytest.fixture(scope="module")
def many_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tar and an archive of small files, enough to be in the middle of it after a moment."""
    folder = tmp_path_factory.mktemp("many")
    with tarfile.open(folder / "x.tar", "w") as tar:
        for i in range(FILES):
            info = tarfile.TarInfo(f"{i:04d}")
            info.size = len(_content(i))
            tar.addfile(info, io.BytesIO(_content(i)))
    assert main(["convert", str(folder / "x.tar"), str(folder / "x.barecat"), "-q"]) == 0
    return folder


@pytest.fixture
def place(many_files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of its own for each test."""
    monkeypatch.chdir(tmp_path)
    for file in many_files.iterdir():
        shutil.copy(file, tmp_path)
    return tmp_path


def _start(kind: str, *words: str) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", _RUN, kind, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def _hidden(folder: Path) -> list[str]:
    return [name for _, _, names in os.walk(folder) for name in names if name.startswith(".")]


def _wait_for(folder: Path) -> None:
    end = time.monotonic() + 20
    while not (folder.is_dir() and any(name[0] != "." for name in os.listdir(folder))):
        assert time.monotonic() < end
        time.sleep(0.005)


def _interrupted(count: int) -> str:
    if count == 0:
        return "headrace: interrupted; nothing unfinished was left behind\n"
    done = "1 file was written to out and is" if count == 1 else f"{count} files were written to out and are"
    return f"headrace: interrupted; {done} complete; the rest is missing, run it again with --force\n"


@pytest.mark.parametrize("kind", ["nameless", "named"])
@pytest.mark.parametrize("words", [["convert", "x.tar", "out", "-q"], ["sync", "x.barecat::", "out", "-q"]])
def test_an_interrupt_leaves_whole_files_only(place: Path, kind: str, words: list[str]) -> None:
    process = _start(kind, *words)
    _wait_for(place / "out")
    process.send_signal(signal.SIGINT)
    _, problem = process.communicate(timeout=60)
    assert process.returncode == 130, problem
    assert _hidden(place) == []
    written = os.listdir(place / "out")
    assert 0 < len(written) < FILES
    # convert says how many; the interrupt may come when a file has its name, and before it is counted.
    counts = (len(written), len(written) - 1) if words[0] == "convert" else (0,)
    assert problem in map(_interrupted, counts)
    assert all((place / "out" / name).read_bytes() == _content(int(name)) for name in written)


def test_a_killed_writer_is_cleaned_up_after_by_the_next(place: Path) -> None:
    process = _start("named", "convert", "x.tar", "out", "-q")
    _wait_for(place / "out")
    process.kill()
    process.communicate()
    written = [name for name in os.listdir(place / "out") if name[0] != "."]
    assert all((place / "out" / name).read_bytes() == _content(int(name)) for name in written)
    (place / "out" / ".0001.0123abcd.unfinished").write_bytes(b"what another one left")
    assert main(["extract", "x.barecat", "-C", "out", "0001", "-q", "--force"]) == 0
    assert sorted(os.listdir(place / "out")) == sorted({*written, "0001"})


def test_a_writer_that_is_stopped_and_goes_on_loses_nothing(place: Path) -> None:
    process = _start("named", "convert", "x.barecat", "y.tar", "-q")
    for _ in range(20):
        process.send_signal(signal.SIGSTOP)
        remove_leftovers(place / "y.tar")  # takes a file only before it is locked, and then the writer makes another
        process.send_signal(signal.SIGCONT)
        time.sleep(0.005)
    process.communicate(timeout=60)
    assert process.returncode == 0
    with tarfile.open("y.tar") as tar:
        assert len(tar.getmembers()) == FILES
    assert _hidden(place) == []


def test_an_interrupt_that_became_another_error_is_still_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*args: object) -> int:
        try:
            raise KeyboardInterrupt
        finally:
            raise AttributeError("argparse was in the middle of something")

    monkeypatch.setattr(command, "_run", fail)
    assert main(["info"]) == 130
    assert "interrupted" in capsys.readouterr().err


@pytest.fixture
def read_only(tmp_path: Path) -> Iterator[Path]:
    """A file system that is mounted for reading only."""
    place = tmp_path / "ro"
    place.mkdir()
    try:
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", place], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("nothing can be mounted here")
    try:
        (place / "x.tar").write_bytes(b"old")
        (place / "out").mkdir()
        subprocess.run(["mount", "-o", "remount,ro", place], check=True)
        yield place
    finally:
        subprocess.run(["umount", place], check=True)


@pytest.mark.parametrize(
    "words",
    ["convert in RO/x.tar -f", "convert in RO/y.zip", "convert in RO/out", "convert in RO/new", "convert in RO/y.ffr"],
)
def test_a_disk_that_cannot_be_written_is_named(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    read_only: Path,
    words: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a").write_bytes(b"1")
    assert main(words.replace("RO", str(read_only)).split()) == 2
    problem = capsys.readouterr().err
    assert "Read-only file system" in problem
    assert str(read_only) in problem
    assert (read_only / "x.tar").read_bytes() == b"old"
