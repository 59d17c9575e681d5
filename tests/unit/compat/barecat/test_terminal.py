"""Names with what a terminal obeys: shown as escapes on one, and as they are to a program."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from headrace.compat.barecat import Barecat

if TYPE_CHECKING:
    from pathlib import Path

NAME = "a\x1b]0;owned\x07b\u202ec"
SHOWN = r"a\x1b]0;owned\x07b\u202ec"


def run(*words: str, on_terminal: bool) -> str:
    command = [sys.executable, "-m", "headrace.compat.barecat", *words]
    if not on_terminal:
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    ours, theirs = pty.openpty()
    with subprocess.Popen(command, stdout=theirs, stderr=theirs, stdin=subprocess.DEVNULL) as process:
        os.close(theirs)
        said = b""
        try:
            while part := os.read(ours, 65536):
                said += part
        except OSError:  # the terminal is closed
            pass
        os.close(ours)
    assert process.returncode == 0, said
    return said.decode()


@pytest.mark.slow
def test_names_on_a_terminal(tmp_path: Path) -> None:
    path = str(tmp_path / "x.barecat")
    with Barecat(path, readonly=False) as bc:
        bc[f"d/{NAME}"] = b"\x1b[1mcontent"
    said = run("find", path, on_terminal=True) + run("ls", path, "d", on_terminal=True)
    assert said.count(SHOWN) == 2
    assert not set(NAME) - set(SHOWN) & set(said)
    assert "\x1b" not in said
    assert f"d/{NAME}\n" in run("find", path, on_terminal=False)
    assert run("cat", path, f"d/{NAME}", on_terminal=True) == "\x1b[1mcontent"
