"""Every verb with odd values for every argument: an answer and an exit code of ours, never a traceback."""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import sys
from typing import TYPE_CHECKING, Any

import pytest
from tests.helpers import image_file, picture, write_folder

import headrace
import headrace.errors
from headrace.cli.main import build_parser, main
from headrace.formats.barecat import Archive
from headrace.viewer.server import Viewer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NUMBERS = ["0", "-1", str(2**63), str(2**64), str(10**30), "9" * 5000, "nan", "inf", "-inf", "1e400", "0x10", "1.5e300"]
TEXTS = [
    "",
    " ",
    "\udcff\udc80",
    "x" * 5000,
    "a\nb",
    "\x1b[31m",
    "\u202e\u009b",
    "[z-a]*",
    "[",
    "**",
    "%s",
    "a::b",
    "::",
]
PATHS = ["dir", "dir/", "/dev/null", "missing", "missing/x.beton", "-", ".", "x.beton/y", "pictures/0.png", "~"]
QUICK = ["0", "-1", str(10**30), "nan", "", "\udcff\udc80", "x" * 5000, "[z-a]*", "dir", "/dev/null", "missing"]

SAMPLES = [
    "-1",
    "-99",
    "99",
    str(10**30),
    "9" * 5000,
    ":",
    "-5:99999999999999999999",
    "-:-",
    "--",
    "\udcff",
    "0:0",
    "1:",
]

VERBS: dict[str, argparse.ArgumentParser] = next(
    dict(action.choices) for action in build_parser()._actions if isinstance(action, argparse._SubParsersAction)
)
# What fits an argument, so that another one can be odd.
FITTING: dict[str, list[str]] = {
    "path": ["a.barecat"],
    "paths": ["a.barecat"],
    "source": ["a.barecat"],
    "sources": ["dir"],
    "target": ["synced.barecat"],
    "out": ["new.barecat"],
    "folders": ["pictures"],
    "names": ["a.txt"],
    "old": ["a.txt"],
    "new": ["b.txt"],
    "sample": ["a.txt"],
    "to": ["extracted"],
    "shard_size": ["1M"],
    "shell": ["names"],
    "directory": ["here"],
    "command": ["ls"],
    "count": ["3"],
    "suite": ["codecs"],
    "datasets": ["x.beton"],
}
ALWAYS = {"shell": ["-c", "ls"], "demo": ["--count", "3"], "bench": ["--samples", "1", "--rounds", "1"]}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    here = tmp_path / "here"
    pictures = {f"pictures/{i}.png": image_file(picture(i, 8, 8), "PNG") for i in range(3)}
    write_folder(here, {**pictures, "dir/a.txt": b"a", "dir/b/c.txt": b"c"})
    with Archive(here / "a.barecat", "x") as archive:
        archive["a.txt"] = b"a"
        archive["pictures/1.png"] = image_file(picture(1, 8, 8), "PNG")
    headrace.write(here / "x.beton", [(i, b"v") for i in range(3)], fields={"n": headrace.Int(), "b": headrace.Bytes()})
    monkeypatch.chdir(here)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(Viewer, "wait", lambda self: None)  # as if the user had ended it at once
    with open(os.devnull) as nothing:
        monkeypatch.setattr(sys, "stdin", nothing)
        yield here


def arguments_of(verb: str) -> list[argparse.Action]:
    return [action for action in VERBS[verb]._actions if action.nargs != 0 and action.dest != "help"]


def command_line(verb: str, odd: argparse.Action, value: str) -> list[str]:
    """The verb with what fits, and with one odd value."""
    words, last = [verb, *ALWAYS.get(verb, [])], []
    for action in arguments_of(verb):
        values = [value] if action is odd else FITTING.get(action.dest, [])
        if action.option_strings:
            if action is odd or action.required:
                words += [f"{max(action.option_strings, key=len)}={one}" for one in values]
        elif action is odd or action.nargs not in ("?", "*") or action.dest == "datasets":
            last += values
    if verb == "mount":
        last[0] = "missing.barecat"  # nothing is mounted
    return [*words, "--", *last]


def run(words: list[str], capfd: pytest.CaptureFixture[str]) -> int:
    try:
        code: Any = main(words)
    except SystemExit as end:
        code = end.code
    out, err = capfd.readouterr()
    assert code in (0, 1, 2), (words, code)
    assert "Traceback" not in err, (words, err)
    assert err or code != 2 or words[0] == "shell", words
    # Nothing that a terminal would obey.
    for text in (err, out) if words[0] not in ("cat", "convert") else (err,):
        assert not re.search("[\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f\\u202a-\\u202e]", text), (words, text)
    return int(code)


def try_all(verb: str, values: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    for action in arguments_of(verb):
        for value in values:
            run(command_line(verb, action, value), capfd)


@pytest.mark.parametrize("verb", VERBS)
def test_odd_values(verb: str, place: Path, capfd: pytest.CaptureFixture[str]) -> None:
    try_all(verb, QUICK, capfd)


@pytest.mark.slow
@pytest.mark.parametrize("verb", VERBS)
def test_many_odd_values(verb: str, place: Path, capfd: pytest.CaptureFixture[str]) -> None:
    try_all(verb, [*NUMBERS, *TEXTS, *PATHS], capfd)


@pytest.mark.parametrize("verb", VERBS)
def test_numbers_out_of_bounds_are_wrong_usage(verb: str, place: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for action in arguments_of(verb):
        if action.type is None:
            continue
        for value in ("nan", "9" * 5000, str(10**30), "", "x"):
            with pytest.raises(SystemExit) as end:
                main(command_line(verb, action, value))
            assert end.value.code == 2
            said = capfd.readouterr().err
            assert "is not a" in said or "must be OLD=NEW" in said or value == str(10**30)


def test_no_argument_is_a_plain_number() -> None:
    for verb in VERBS:
        for action in arguments_of(verb):
            assert action.type not in (int, float), (verb, action.dest)


@pytest.mark.parametrize("words", [["ls", "a.barecat", "[z-a]*"], ["verify", "a.barecat", "-j", "9" * 20]])
def test_command_lines_that_had_a_traceback(words: list[str], place: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(words, capfd) == 2


@pytest.mark.parametrize("name", ["x.beton", "a.barecat", "pictures", "dir", "/dev/null", "missing"])
def test_odd_samples(name: str, place: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for verb in ("ls", "cat"):
        for sample in SAMPLES:
            run([verb, "--", name, sample], capfd)


ODD: list[Any] = [0, -1, 2**31, 2**63, 2**64, 10**30, float("nan"), float("inf"), "x", b"x", [], True]
OPTIONS = ["batch_size", "workers", "batches_ahead", "pool_pages", "seed", "rank", "cache", "indices", "order"]


@pytest.mark.filterwarnings("ignore:.* is larger than the dataset")
@pytest.mark.parametrize("value", ODD, ids=repr)
def test_odd_arguments_of_functions(value: Any, place: Path) -> None:
    def load(**options: Any) -> None:
        loader = headrace.Loader("x.beton", **{"batch_size": 1, "world": 4 if "rank" in options else None, **options})
        for _ in loader:
            break

    fields = {"n": headrace.Int()}
    calls: list[Any] = [lambda name=name: load(**{name: value}) for name in OPTIONS]
    calls += [
        lambda: headrace.write("y.beton", [1], fields=fields, force=True, workers=value),
        lambda: headrace.write("y.beton", [1], fields=fields, force=True, page_size=value),
        lambda: headrace.write("y.beton", [1], fields=fields, force=True, shuffle_seed=value),
        lambda: headrace.write("y.beton", [value], fields=fields, force=True),
        lambda: headrace.verify("x.beton", workers=value),
        lambda: headrace.open("x.beton")[value],
        lambda: headrace.open("x.beton").read_bytes([value], "b"),
        lambda: headrace.Loader("x.beton", 1)[value],
        lambda: headrace.Image(max_side=value),
        lambda: headrace.NDArray("f4", (value,)),
    ]
    for call in calls:
        with contextlib.suppress(headrace.errors.HeadraceError, ValueError, TypeError, LookupError):
            call()
