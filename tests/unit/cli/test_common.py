"""What several verbs share."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

import pytest

import headrace as hr
from headrace.cli.common import message_of, parse_color, parse_size, printable, select_samples
from headrace.cli.parser import VerbParser

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(("text", "size"), [("0", 0), ("8M", 8 << 20), ("1.5 GiB", 3 << 29), ("2kb", 2048)])
def test_sizes(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "M", "8 apples", "-1"])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="is not a size"):
        parse_size(text)


def test_colours() -> None:
    assert (parse_color("white"), parse_color("1,2,3")) == ((255, 255, 255), (1, 2, 3))
    with pytest.raises(argparse.ArgumentTypeError):
        parse_color("1,2")


def test_samples_by_number_range_and_name(tmp_path: Path) -> None:
    hr.write(tmp_path / "x.beton", range(5), fields={"n": hr.Int()}, names=["a", "b", "c", "3", "e"])
    dataset = hr.open(tmp_path / "x.beton")
    assert list(select_samples(dataset, [])) == [0, 1, 2, 3, 4]
    assert list(select_samples(dataset, ["b", "-1", "1:3", ":2", "3"])) == [1, 4, 1, 2, 0, 1, 3]
    with pytest.raises(ValueError, match="sample 9 is out of range"):
        list(select_samples(dataset, ["9"]))
    with pytest.raises(ValueError, match="no sample is called 'nobody'"):
        list(select_samples(dataset, ["nobody"]))


def test_what_is_printed() -> None:
    assert printable("a\x1b[31m") == "a\\x1b[31m"
    assert message_of(KeyError("no field 'x'")) == "no field 'x'"
    assert message_of(FileNotFoundError(2, "No such file", "x")) == "x: No such file"
    assert message_of(ValueError()) == "ValueError"


def test_options_and_names_in_any_order() -> None:
    parser = VerbParser()
    parser.add_argument("path")
    parser.add_argument("names", nargs="*")
    parser.add_argument("-l", action="store_true")
    found = parser.parse_args(["x", "-l", "a", "--", "-l", "--"])
    assert (found.path, found.names, found.l) == ("x", ["a", "-l", "--"], True)
