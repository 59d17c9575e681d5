"""``headrace du``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Said = Callable[..., str]


def test_du(place: Path, said: Said) -> None:
    assert said("du", "x.barecat", "-L", "1") == "6005\tsrc\n6005\t.\n"
    assert json.loads(said("du", "-s", "x.barecat", "src/cat", "--json"))[0]["size_bytes"] == 6000
    assert "1000" in said("du", "-a", "x.barecat", "src/cat")
