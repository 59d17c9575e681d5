"""``headrace rm``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from headrace.formats.barecat import Archive

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Said = Callable[..., str]


def test_rm(place: Path, said: Said) -> None:
    (place / "src" / "void" / "new.txt").write_text("new")
    said("add", "x.barecat", "src/void/new.txt")
    assert "give -r" in said("rm", "x.barecat", "src/void/new.txt", "src/cat", code=2)
    assert Archive("x.barecat").exists("src/void/new.txt")
    said("rm", "-r", "x.barecat", "src/cat", "src/void/new.txt")
    assert list(Archive("x.barecat")) == ["src/note\n.txt"]
