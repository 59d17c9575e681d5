"""``headrace find``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Said = Callable[..., str]


def test_find(place: Path, said: Said) -> None:
    assert said("find", "x.barecat", "--name", "*.bin", "--size", "+1k") == "src/cat/1.bin\nsrc/cat/2.bin\n"
    assert said("find", "x.barecat", "src", "--type", "d", "--maxdepth", "1", "-0") == "src/cat\0src/void\0"
    assert said("find", "x.barecat", "--path", "**/cat/0*") == "src/cat/0.bin\n"


def test_conditions_as_of_find(place: Path, said: Said) -> None:
    assert said("find", "x.barecat", "-name", "1.*") == "src/cat/1.bin\n"
    for dashes in ("-", "--"):
        small = said("find", "x.barecat", f"{dashes}type", "f", f"{dashes}size", "-6")
        assert small == "src/note\\n.txt\n"
    assert said("find", "x.barecat", "-path", "src/cat/*", "-maxdepth", "3", "-print0").count("\0") == 3
