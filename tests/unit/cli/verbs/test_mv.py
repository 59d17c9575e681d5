"""``headrace mv``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from headrace.formats.barecat import Archive

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Said = Callable[..., str]


def test_mv(place: Path, said: Said) -> None:
    (place / "src" / "new.txt").write_text("new")
    said("add", "x.barecat", "src/new.txt")
    said("mv", "x.barecat", "src/new.txt", "src/void")
    assert Archive("x.barecat")["src/void/new.txt"] == b"new"
