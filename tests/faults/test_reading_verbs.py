"""Verbs that read change nothing: no call of theirs could, and they work where nothing can be changed."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from tests.faults.disks import mounted, why_no_mounts
from tests.faults.scenarios import READING, fill_pantry
from tests.faults.supervisor import supervised, why_not

import headrace as hr
from headrace.cli.main import main
from headrace.storage.block_cache import BlockKey, block_cache

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ANY = [("info",), ("ls",), ("ls", "-l"), ("verify",), ("verify", "--decode"), ("cat", "0"), ("completion",)]
ARCHIVE = [
    ("info", "--json"),
    ("ls", "-R"),
    ("ls", "-l", "a"),
    ("cat", "a/1.txt"),
    ("verify",),
    ("verify", "--quick"),
    ("tree",),
    ("find", "--name", "*.txt"),
    ("du", "-a"),
    ("shell", "-c", "cd a", "-c", "ls -l", "-c", "cat 1.txt", "-c", "verify", "-c", "stat 1.txt"),
    ("shell", "-w", "-c", "ls"),
    ("defrag", "-n"),
    ("completion",),
]
ALONE = {
    "browse": "it needs a terminal",
    "view": "it serves until it is ended; tests/viewer has its tests",
    "mount": "it needs FUSE; tests/unit/transfer has its tests",
    "help": "it opens no file",
    "version": "it opens no file",
}


OTHERS = ("tar", "zip", "tfrecord", "rec", "npy", "npz", "parquet", "arrow", "h5", "lmdb", "msgpack", "jsonl", "csv")


def commands() -> Iterator[tuple[str, ...]]:
    """Every reading command, on every format."""
    for file in ("x.beton", "bare.beton", "x.ffr"):
        for verb, *options in ANY:
            yield ("completion", "names", file) if verb == "completion" else (verb, file, *options)
    for kind in OTHERS:
        for verb, *options in ANY[:-1]:
            yield verb, f"x.{kind}", *options
    for verb, *options in ARCHIVE:
        yield ("completion", "names", "x.barecat") if verb == "completion" else (verb, "x.barecat", *options)
    for file in ("x.beton", "x.ffr", "x.barecat", "x.csv", "x.tar"):
        yield "doctor", file, "--seconds", "0.2"
    yield "cache", "info", "x.cache"
    yield "sync", "new/", "x.barecat", "-n", "-v"
    yield "sync", "x.barecat::/", "old", "--delete", "-n", "-v"


COMMANDS = list(commands())
IDS = [" ".join(words) for words in COMMANDS]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("files")
    fill_pantry(folder)
    cache = block_cache(folder / "x.cache", 1 << 20)
    assert cache.store(BlockKey("s3://bucket/x.beton", "v1", 0), b"block")
    cache.close()
    return folder


def test_every_reading_verb_is_tried() -> None:
    assert {words[0] for words in COMMANDS} >= set(READING) - set(ALONE)


@pytest.mark.skipif(why_not() is not None, reason=str(why_not()))
@pytest.mark.parametrize("words", COMMANDS, ids=IDS)
def test_no_call_changes_a_file(files: Path, words: tuple[str, ...], tmp_path: Path) -> None:
    printed = tmp_path / "printed"

    def work() -> int:
        os.chdir(files)
        with open(os.open(printed, os.O_CREAT | os.O_WRONLY), "w") as out:
            for fd in (1, 2):
                os.dup2(out.fileno(), fd)
            sys.stdout = sys.stderr = open(1, "w", closefd=False)  # noqa: SIM115
            sys.dont_write_bytecode = True
            code = main(list(words))
            sys.stdout.flush()
            return code

    run = supervised(work, lambda request: None, folder="/")
    assert run.status == 0, printed.read_text()
    own = str(printed).removeprefix("/")
    changes = [(call, path) for call, path in zip(run.calls, run.paths, strict=True) if path != own]
    assert [change for change in changes if not change[1].startswith(("dev/", "proc/"))] == []


@pytest.fixture(scope="module")
def read_only(files: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    if reason := why_no_mounts():
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("read-only")
    with mounted(folder, "--bind", str(files)):
        subprocess.run(["mount", "-o", "remount,ro,bind", str(folder)], check=True)
        yield folder


def test_everything_reads_from_a_read_only_disk(
    read_only: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(OSError, match="Read-only"):
        (read_only / "x").write_bytes(b"")
    monkeypatch.chdir(read_only)
    for words in COMMANDS:
        assert (main(list(words)), capfd.readouterr().err) == (0, ""), words


def test_datasets_load_from_a_read_only_disk(read_only: Path) -> None:
    for name in ("x.beton", "x.ffr", "x.barecat"):
        dataset = hr.open(read_only / name)
        assert dataset.verify().ok
        assert len(list(dataset)) == len(dataset)
    loader = hr.Loader(hr.open(read_only / "x.beton"), batch_size=1, drop_last=False)
    assert sum(len(batch.label) for batch in loader) == 3


@pytest.mark.parametrize("name", ["bare.beton", "x.ffr", "x.barecat"])
def test_writing_to_a_read_only_disk_is_an_error_of_one_line(
    read_only: Path, name: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(read_only)
    for words in (("index", name), ("create", name, "in", "--force"), ("extract", name, "-C", "there")):
        assert main([*words, "-q"]) == 2, words
        error = capfd.readouterr().err
        assert "ead-only" in error, words
        assert error.count("\n") == 1, words


@pytest.mark.parametrize("words", COMMANDS, ids=IDS)
def test_output_that_cannot_be_written_is_an_error(files: Path, words: tuple[str, ...]) -> None:
    if words == ("completion", "names", "bare.beton"):
        pytest.skip("it prints nothing: the samples have no names")
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        code = 70
        try:
            os.chdir(files)
            os.dup2(os.open("/dev/full", os.O_WRONLY), 1)
            os.dup2(write, 2)
            sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", 1, closefd=False)  # noqa: SIM115
            code = main(list(words))
        finally:
            os._exit(code)
    os.close(write)
    with open(read) as errors:
        text = errors.read()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 2, text
    assert text == "headrace: error: [Errno 28] No space left on device\n"
