"""Patterns of paths mean what they mean to Python's glob."""

from __future__ import annotations

import glob
import os
from typing import TYPE_CHECKING

import pytest

from headrace.formats.patterns import fixed_prefix, translate

if TYPE_CHECKING:
    from pathlib import Path

NAMES = ["a", "b.txt", ".hidden", "d/a.txt", "d/e/b.txt", "d/.h/c.txt", "d/[x]", "d/-", "d/5"]


@pytest.mark.parametrize("recursive", [False, True])
@pytest.mark.parametrize("include_hidden", [False, True])
@pytest.mark.parametrize(
    "pattern",
    [
        "*",
        "?",
        "*.txt",
        "d/*",
        "**",
        "**/*.txt",
        "d/**",
        "**/b*",
        ".*",
        "d/[!a]*",
        "d/[[]x]",
        "d/[0-9]",
        "d/[9-0]",
        "d/[a",
    ],
)
def test_the_same_as_glob(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pattern: str, recursive: bool, include_hidden: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in NAMES:
        os.makedirs(os.path.dirname(name) or ".", exist_ok=True)
        open(name, "wb").close()
    match = translate(pattern, recursive=recursive, include_hidden=include_hidden).fullmatch
    wanted = glob.glob(pattern, recursive=recursive, include_hidden=include_hidden)
    assert sorted(name for name in NAMES if match(name)) == sorted(name for name in wanted if os.path.isfile(name))


def test_what_stands_before_anything_special() -> None:
    assert [fixed_prefix(text) for text in ("a/b", "a/b*", "[x]", "a?c")] == ["a/b", "a/b", "", "a"]
