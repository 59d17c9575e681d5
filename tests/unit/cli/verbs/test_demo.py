"""``headrace demo``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import headrace as hr
from headrace.cli.main import main

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Said = Callable[..., str]


def test_demo(tmp_path: Path, said: Said) -> None:
    keep = tmp_path / "demo"
    text = said("demo", "--count", "24", "--keep", keep, "-q")
    assert "verify says bad samples: [12]" in text
    assert "checksum 0x" in text
    assert len(hr.open(keep / "pictures-raw.beton")) == 24
    assert main(["demo", "--keep", str(keep)]) == 2
