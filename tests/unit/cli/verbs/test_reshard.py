"""``headrace reshard``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Said = Callable[..., str]


def test_reshard(place: Path, said: Said) -> None:
    assert said("reshard", "x.barecat", "-s", "8K") == "x.barecat: 1 shard of at most 8.0 KiB\n"
    said("rm", "-r", "x.barecat", "src/cat")
    said("reshard", "x.barecat", "-s", "1K")
    about = json.loads(said("info", "x.barecat", "--json"))
    assert (about["files"], about["shards"], about["gap_bytes"], about["shard_size_limit"]) == (1, 1, 0, 1024)
    assert "limit 1.0 KiB" in said("info", "x.barecat")
