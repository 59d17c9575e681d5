"""``headrace add``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from headrace.formats.barecat import Archive

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Said = Callable[..., str]


def test_add(place: Path, said: Said) -> None:
    (place / "src" / "new.txt").write_text("new")
    assert "1 file," in said("add", "x.barecat", "src/new.txt")
    assert "exists already" in said("add", "x.barecat", "src/new.txt", code=2)
    said("add", "x.barecat", "src/new.txt", "--replace")
    assert Archive("x.barecat")["src/new.txt"] == b"new"
    assert "--replace" in said("add", "x.barecat", "src", code=2)


def test_add_from_another_directory(place: Path, said: Said) -> None:
    said("create", "y.barecat", "-C", "src", "cat", "void")
    said("add", "y.barecat", "-C", "src/cat", "0.bin")
    assert sorted(Archive("y.barecat")) == ["0.bin", *[f"cat/{i}.bin" for i in range(3)]]
    assert "nothing to add" in said("add", "y.barecat", code=2)
