"""Every verb ends with the codes that the reference promises."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from headrace.cli.main import build_parser, main
from headrace.storage.block_cache import block_cache

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

FINE = {
    "create": "create new.barecat photos -q",
    "convert": "convert photos.barecat new.tar -q",
    "info": "info photos.barecat",
    "ls": "ls photos.barecat",
    "cat": "cat photos.barecat notes.txt",
    "extract": "extract photos.barecat -C out -q",
    "verify": "verify photos.barecat",
    "repair": "repair photos.barecat",
    "index": "index photos.barecat --export index.csv",
    "doctor": "doctor photos.barecat --seconds 0.2",
    "tree": "tree photos.barecat",
    "find": "find photos.barecat",
    "du": "du photos.barecat",
    "add": "add photos.barecat photos/notes.txt",
    "rm": "rm photos.barecat notes.txt",
    "mv": "mv photos.barecat notes.txt other.txt",
    "sync": "sync photos/ photos.barecat",
    "merge": "merge photos.barecat -o new.barecat",
    "subset": "subset photos.barecat -o new.barecat",
    "reshard": "reshard photos.barecat -s 1M",
    "defrag": "defrag photos.barecat",
    "cache": "cache clear photos-cache",
    "shell": "shell photos.barecat -c ls",
    "completion": "completion bash",
    "help": "help",
    "version": "version",
    "demo": "demo --count 8 -q",
    "bench": "bench codecs --samples 1 --rounds 1 --out results -q",
}
NEEDS_MORE = {  # a terminal, a kernel, a user who ends it
    "browse": "browse photos.barecat",
    "mount": "mount photos.barecat mnt",
    "view": "view photos.barecat --port 0",
}
ALL = FINE | NEEDS_MORE
FIRM = ("completion", "help", "version", "demo", "bench")  # read no file
VERBS: dict[str, argparse.ArgumentParser] = dict(build_parser().verbs.choices)


@pytest.fixture
def photos(photos: Path) -> Path:
    """A cache, too."""
    block_cache(photos / "photos-cache", 1 << 20).close()
    return photos


def code_of(words: list[str]) -> object:
    try:
        return main(words)
    except SystemExit as end:
        return end.code


def test_no_verb_is_forgotten() -> None:
    assert sorted(ALL) == sorted(VERBS)


@pytest.mark.parametrize("verb", FINE)
def test_0_when_all_is_well(verb: str, photos: Path) -> None:
    assert code_of(FINE[verb].split()) == 0


def test_1_when_verify_finds_something(photos: Path) -> None:
    with open("photos.barecat-shard-00000", "r+b") as shard:
        shard.write(b"damage")
    assert code_of(["verify", "photos.barecat"]) == 1
    assert code_of(["verify", "photos.barecat", "--json"]) == 1
    assert code_of(["extract", "photos.barecat", "-C", "out"]) == 2
    assert code_of(["shell", "photos.barecat", "-c", "verify"]) == 2


@pytest.mark.parametrize("verb", [verb for verb in ALL if verb not in FIRM])
def test_2_when_a_file_is_missing_or_damaged(verb: str, photos: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (photos / "mnt").mkdir()
    words = [word.replace("photos", "missing") for word in ALL[verb].split()]
    if verb == "repair":  # a file that was about to be written need not be there
        words = ["repair", "nowhere/photos.barecat"]
    assert code_of(words) == 2
    assert capsys.readouterr().err.startswith("headrace: error: ")
    (photos / "photos.barecat").write_bytes(b"nothing of the kind")
    if verb not in ("create", "repair", "cache", "sync", "mount"):
        assert code_of(ALL[verb].split()) == 2
        assert "photos.barecat" in capsys.readouterr().err


@pytest.mark.parametrize("verb", ALL)
def test_2_for_wrong_usage(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert code_of([*ALL[verb].split(), "--such-an-option"]) == 2
    err = capsys.readouterr().err
    assert err.startswith(f"usage: headrace {verb} ")
    assert "there is no option '--such-an-option'" in err


def test_2_for_no_verb(capsys: pytest.CaptureFixture[str]) -> None:
    assert code_of(["such-a-verb"]) == 2


@pytest.mark.parametrize("verb", ALL)
def test_130_when_interrupted(
    verb: str, photos: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(args: argparse.Namespace) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(sys.modules[f"headrace.cli.verbs.{verb}"], "run", interrupt)
    assert code_of(ALL[verb].split()) == 130
    assert capsys.readouterr().err == "headrace: interrupted; nothing unfinished was left behind\n"
