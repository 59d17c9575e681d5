"""``headrace tree``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from headrace.cli.main import main

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pytest

    Said = Callable[..., str]


def test_tree(place: Path, said: Said, capsys: pytest.CaptureFixture[str]) -> None:
    assert "└── void/" in said("tree", "x.barecat", "-L", "2", "-d")
    assert main(["tree", "x.barecat", "nope"]) == 2
    assert capsys.readouterr().out == ""
