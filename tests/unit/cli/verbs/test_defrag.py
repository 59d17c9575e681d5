"""``headrace defrag``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.formats.barecat import Archive

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Said = Callable[..., str]


def test_defrag(place: Path, said: Said) -> None:
    said("rm", "-r", "x.barecat", "src/cat")
    gaps = json.loads(said("defrag", "-n", "x.barecat", "--json"))
    assert gaps["path"] == "x.barecat"
    for how in ([], ["--smart"], ["--quick", "--max-seconds", "9"]):
        said("defrag", "x.barecat", *how)
    about = json.loads(said("info", "x.barecat", "--json"))
    assert (about["files"], about["gap_bytes"]) == (1, 0)
    assert list(Archive("x.barecat")) == ["src/note\n.txt"]
