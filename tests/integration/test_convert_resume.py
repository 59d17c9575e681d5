"""A conversion into a set of files is killed, and goes on where it was."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

import headrace as hr
from headrace.errors import ArchiveBusyError, FormatError
from headrace.storage import process_lock
from headrace.testing.columns import picture_of

if TYPE_CHECKING:
    from pathlib import Path

COUNT = 60
KILLED = """
import os, signal, sys
import headrace as hr
def progress(done, total, size_bytes):
    if done >= int(sys.argv[3]):
        os.kill(os.getpid(), signal.SIGKILL)
hr.convert(sys.argv[1], sys.argv[2], shard_samples=7, resume=True, shuffle_seed=3, workers=1, progress=progress)
"""
OPTIONS: dict[str, Any] = {"shard_samples": 7, "shuffle_seed": 3, "workers": 1}


@pytest.fixture
def source(tmp_path: Path) -> str:
    path = str(tmp_path / "in.beton")
    fields = {"image": hr.Image(mode="proportion"), "label": hr.Int()}
    samples = [(picture_of(i, 20, 30), i) for i in range(COUNT)]
    hr.write(path, samples, fields=fields, names=[f"n{i}" for i in range(COUNT)], workers=1)
    return path


def kill_in_the_middle(source: str, target: str, at: int) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED, source, target, str(at)], check=False, timeout=120)
    assert done.returncode == -signal.SIGKILL


def contents(folder: Path) -> dict[str, bytes]:
    return {
        name: (folder / name).read_bytes() for name in sorted(os.listdir(folder)) if not name.endswith("unfinished")
    }


@pytest.mark.parametrize("ending", ["beton", "msgpack", "npz"])
def test_after_a_kill_it_goes_on(source: str, tmp_path: Path, ending: str) -> None:
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    whole.mkdir()
    parts.mkdir()
    target = str(parts / f"t-%02d.{ending}")
    hr.convert(source, whole / f"t-%02d.{ending}", **OPTIONS)
    kill_in_the_middle(source, target, 30)
    there = {name: (parts / name).stat() for name in os.listdir(parts) if name.startswith("t-")}
    assert there
    assert len([name for name in there if name.endswith(ending)]) < 9
    assert f".t-%02d.{ending}.convert.json" in os.listdir(parts)
    kill_in_the_middle(source, target, 45)
    result = hr.convert(source, target, resume=True, verify=True, **OPTIONS)
    assert result.samples == COUNT
    assert contents(parts) == contents(whole)
    kept = [name for name, status in there.items() if (parts / name).stat().st_mtime_ns == status.st_mtime_ns]
    assert len(kept) >= len(there) - 2  # the last one may not have been noted


def begun(source: str, folder: Path) -> str:
    target = str(folder / "t-%02d.npz")
    kill_in_the_middle(source, target, 30)
    return target


def test_a_file_that_was_damaged_since_is_written_again(source: str, tmp_path: Path) -> None:
    target = begun(source, tmp_path)
    first = tmp_path / "t-00.npz"
    good = first.read_bytes()
    first.write_bytes(good[:-9] + b"otherwise")
    hr.convert(source, target, resume=True, **OPTIONS)
    assert first.read_bytes() == good


def test_another_source_or_other_options_are_refused(source: str, tmp_path: Path) -> None:
    target = begun(source, tmp_path)
    with pytest.raises(ValueError, match=r"begun with another shuffle seed, so it cannot be resumed\. .*convert\.json"):
        hr.convert(source, target, resume=True, **(OPTIONS | {"shuffle_seed": 4}))
    with pytest.raises(ValueError, match=r"begun with another shard samples, .*"):
        hr.convert(source, target, resume=True, **(OPTIONS | {"shard_samples": 8}))
    with pytest.raises(FileExistsError):
        hr.convert(source, target, **OPTIONS)
    hr.convert(source, tmp_path / "other.beton", limit=50)
    with pytest.raises(ValueError, match="begun with another source"):
        hr.convert(tmp_path / "other.beton", target, resume=True, **OPTIONS)
    hr.convert(source, target, resume=True, **OPTIONS)


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", '{"version": 1, "job": {}, "shards": [{"samples": -1, "files": {}}]}']
)
def test_notes_that_cannot_be_read_are_named(source: str, tmp_path: Path, text: str) -> None:
    target = begun(source, tmp_path)
    (tmp_path / ".t-%02d.npz.convert.json").write_text(text)
    with pytest.raises(FormatError, match=r"convert\.json: what an earlier run has noted cannot be read"):
        hr.convert(source, target, resume=True, **OPTIONS)


def test_a_set_that_is_complete_is_not_begun_again(source: str, tmp_path: Path) -> None:
    target = tmp_path / "t-%02d.npz"
    hr.convert(source, target, resume=True, **OPTIONS)
    assert not [name for name in os.listdir(tmp_path) if name.startswith(".")]
    with pytest.raises(FileExistsError):
        hr.convert(source, target, resume=True, **OPTIONS)
    hr.convert(source, target, resume=True, force=True, **OPTIONS)
    for wrong in ({"resume": True, "skip_broken": True, **OPTIONS}, {"resume": True}):
        with pytest.raises(ValueError, match="resume= or --resume is for a set of files"):
            hr.convert(source, tmp_path / "u-%02d.npz", **wrong)


HOLDING = """
import sys
import headrace as hr
def progress(done, total, size_bytes):
    if done == 60:
        print("here", flush=True)
        sys.stdin.readline()
hr.convert(sys.argv[1], sys.argv[2], shard_samples=7, resume=True, shuffle_seed=3, workers=1, progress=progress)
"""


def test_two_processes_do_not_write_one_set(source: str, tmp_path: Path) -> None:
    target = str(tmp_path / "t-%02d.npz")
    command = [sys.executable, "-c", HOLDING, source, target]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdin is not None
        assert other.stdout is not None
        assert other.stdout.readline() == "here\n"
        before = contents(tmp_path)
        with pytest.raises(ArchiveBusyError, match=rf"t-%02d\.npz: process {other.pid} on \S* is writing it\. Wait"):
            hr.convert(source, target, resume=True, **OPTIONS)
        assert contents(tmp_path) == before
        other.communicate("go on\n", timeout=60)
    assert other.returncode == 0
    assert len(hr.open(str(tmp_path / "t-*.npz"))) == COUNT
    assert not [name for name in os.listdir(tmp_path) if name.startswith(".")]


def test_the_lock_of_a_killed_process_is_free(source: str, tmp_path: Path) -> None:
    target = begun(source, tmp_path)
    assert (tmp_path / ".t-%02d.npz.convert.lock").exists()
    hr.convert(source, target, resume=True, **OPTIONS)
    assert not [name for name in os.listdir(tmp_path) if name.startswith(".")]


def test_what_a_lock_says_is_not_repeated_unless_it_is_a_process(tmp_path: Path) -> None:
    path = tmp_path / ".x.lock"
    with process_lock(str(path), "x"):
        path.write_text("\x1b[31mnobody")
        with (
            pytest.raises(ArchiveBusyError, match=r"^x: another process is writing it\."),
            process_lock(str(path), "x"),
        ):
            pass
