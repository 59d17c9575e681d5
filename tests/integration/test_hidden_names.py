"""Names of temporary files never reach a user: not on a full disk, not without permission, not at Ctrl-C."""

from __future__ import annotations

import os
import re
import resource
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest
from tests.helpers import image_file, picture, write_folder

import headrace as hr
from headrace.cli.main import main

if TYPE_CHECKING:
    from pathlib import Path

HIDDEN = re.compile(r"\.unfinished|\.incomplete|/proc/|memory:|temporary$|\.[0-9a-f]{8}\b")
ROOM = 300_000

WRITING = [
    "create out/x.beton pictures",
    "create out/x.ffr big",
    "create out/x.barecat big",
    "convert big.barecat out/x.tar",
    "convert big.barecat out/x.zip",
    "convert big.barecat out/x.tar.gz",
    "convert big.tar out/x.barecat",
    "convert big.tar.gz out/x.ffr",
    "convert big.tar out/x.ffr",
    "convert big.ffr out/x.barecat",
    "convert big.ffr out/folder/",
    "extract big.barecat -C out/folder",
    "extract big.ffr -C out/folder",
    "merge big.barecat -o out/x.barecat",
    "merge big.tar big -o out/x.barecat",
    "subset big.barecat -o out/x.barecat",
    "sync big/ out/x.barecat",
    "sync big/ out/folder",
    "add out/small.barecat big",
    "merge big.barecat -o out/small.barecat -a",
    "merge big.barecat -o out/small.barecat -f",
    "create out/small.barecat big -f",
    "create out/small.ffr big -f",
]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_folder(tmp_path / "big", {f"{i}.bin": os.urandom(100_000) for i in range(8)})
    write_folder(tmp_path / "pictures", {f"c/{i}.png": image_file(picture(i, 30, 30), "PNG") for i in range(3)})
    write_folder(tmp_path / "small", {"a.txt": b"a"})
    (tmp_path / "out").mkdir()
    for words in ("big big.barecat", "big big.tar", "big big.tar.gz", "big big.ffr", "small out/small.barecat"):
        assert main(["convert", *words.split(), "-q"]) == 0
    assert main(["create", "out/small.ffr", "small", "-q"]) == 0
    return tmp_path


def run(words: list[str], **options: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "headrace", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, **options)  # type: ignore[call-overload,no-any-return]


def files_may_not_grow() -> None:
    """As on a full disk: files end at a size, and writing more is an error."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (ROOM, ROOM))


def left_in(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


@pytest.mark.slow
@pytest.mark.parametrize("line", WRITING)
def test_when_there_is_no_room(place: Path, line: str) -> None:
    done = run([*line.split(), "-q"], preexec_fn=files_may_not_grow)
    if done.returncode:  # not where every file of it is small enough
        assert done.returncode == 2
        assert done.stderr.startswith("headrace: error: ")
        assert "out" in done.stderr, "it says where"
    assert not HIDDEN.search(done.stderr), done.stderr
    assert not any(HIDDEN.search(name) for name in left_in(place / "out"))
    assert hr.verify("out/small.barecat").ok
    assert hr.verify("out/small.ffr").ok


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
@pytest.mark.parametrize("line", WRITING)
def test_where_nothing_may_be_written(place: Path, line: str) -> None:
    (place / "out").chmod(0o500)
    try:
        done = run([*line.split(), "-q"])
    finally:
        (place / "out").chmod(0o700)
    assert not HIDDEN.search(done.stderr), done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("line", WRITING)
def test_ctrl_c(place: Path, line: str) -> None:
    command = [sys.executable, "-m", "headrace", *line.split(), "-q"]
    for wait_s in (0.25, 0.45):
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            time.sleep(wait_s)
            process.send_signal(signal.SIGINT)
            said = "".join(process.communicate(timeout=60))
        if "<frozen importlib" not in said:  # modules have such names, too, and Python names those it was loading
            assert not HIDDEN.search(said), said
        assert not any(HIDDEN.search(name) for name in left_in(place / "out"))
