"""``headrace completion``: the scripts work in real shells."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from headrace.cli.main import build_parser

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Said = Callable[..., str]

ASK = """
source script.bash
headrace() { "$PYTHON" -m headrace "$@"; }
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
_headrace
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture
def complete(photos: Path, said: Said) -> Callable[..., list[str]]:
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("there is no bash")
    (photos / "script.bash").write_text(said("completion", "bash"))

    def ask(*words: str) -> list[str]:
        run = subprocess.run(
            [bash, "--norc", "-c", ASK, "bash", "headrace", *words],
            env={**os.environ, "PYTHON": sys.executable},
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        assert run.stderr == ""
        return run.stdout.split("\n")[:-1]

    return ask


def test_bash(complete: Callable[..., list[str]]) -> None:
    assert complete("cre") == ["create"]
    assert complete("--vers") == ["--version"]
    assert complete("verify", "--q") == ["--quick", "--quiet"]
    assert complete("create", "--mode", "") == ["jpg", "raw", "smart", "proportion"]
    assert complete("completion", "z") == ["zsh"]
    assert complete("cat", "photos.barecat", "") == ["cat/", "dog/", "notes.txt", "void/"]
    assert complete("ls", "-l", "photos.barecat", "cat/") == ["cat/1.jpg", "cat/2.jpg"]
    assert complete("extract", "photos.barecat", "-C", "") == [""], "a folder: bash completes that itself"
    assert complete("convert", "photos.barecat", "") == [""]


def test_every_verb_and_option_is_there(said: Said) -> None:
    for shell, head in (("bash", "{verb})"), ("zsh", "{verb})"), ("fish", "-a {verb} -d")):
        script = said("completion", shell)
        for verb, parser in build_parser().verbs.choices.items():
            assert head.format(verb=verb) in script
            assert all(option.lstrip("-") in script for a in parser._actions for option in a.option_strings)


def test_zsh(photos: Path, said: Said) -> None:
    script = said("completion", "zsh")
    assert script.startswith("#compdef headrace\n")
    zsh = shutil.which("zsh")
    if zsh is None:
        pytest.skip("there is no zsh")
    (photos / "_headrace").write_text(script)
    load = "autoload -Uz compinit && compinit -u -d dump && source ./_headrace && whence -w _headrace"
    run = subprocess.run([zsh, "-f", "-c", load], capture_output=True, text=True, timeout=60, check=True)
    assert run.stdout == "_headrace: function\n"
    assert run.stderr == ""


def test_fish(photos: Path, said: Said) -> None:
    fish = shutil.which("fish")
    if fish is None:
        pytest.skip("there is no fish")
    (photos / "script.fish").write_text(said("completion", "fish"))
    ask = f"source script.fish; function headrace; {shlex.quote(sys.executable)} -m headrace $argv; end; complete -C "

    def complete(line: str) -> list[str]:
        run = subprocess.run(
            [fish, "--no-config", "-c", ask + shlex.quote(line)],
            env={**os.environ, "HOME": str(photos)},
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        assert run.stderr == ""
        return [found.partition("\t")[0] for found in run.stdout.splitlines()]

    assert complete("headrace cre") == ["create"]
    assert complete("headrace --vers") == ["--version"]
    assert complete("headrace verify --q") == ["--quick", "--quiet"]
    assert complete("headrace create --mode ") == ["jpg", "proportion", "raw", "smart"]
    assert complete("headrace help defr") == ["defrag"]
    assert complete("headrace cat photos.barecat no") == ["notes.txt"]
    assert complete("headrace --traceback ls -l photos.barecat cat/") == ["cat/1.jpg", "cat/2.jpg"]
    assert complete("headrace info photos.b") == ["photos.barecat", "photos.barecat-shard-00000"]


def test_names(photos: Path, said: Said) -> None:
    assert said("completion", "names", "photos.barecat", "do") == "dog/\n"
    assert said("completion", "names", "photos.barecat", "dog/") == "dog/3 b.jpg\n"
    said("create", "a.beton", "photos/cat")
    assert said("completion", "names", "a.beton", "1") == "1.jpg\n"
    assert said("completion", "names", "nope.barecat") == ""
    assert said("completion", "names", "photos.barecat", "nope/") == ""
    assert "name the FILE" in said("completion", "names", code=2)
    assert "needs no FILE" in said("completion", "bash", "x", code=2)
