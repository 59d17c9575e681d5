"""``headrace subset``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from headrace.formats.barecat import Archive

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Said = Callable[..., str]


def test_subset(place: Path, said: Said) -> None:
    said("subset", "x.barecat", "-o", "s.barecat", "-i", "**/*.bin", "-x", "**")
    assert len(Archive("s.barecat")) == 3
