"""``headrace ls``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import Any

    Said = Callable[..., str]
    JsonSaid = Callable[..., Any]


def test_ls(packed: Path, said: Said, json_said: JsonSaid) -> None:
    assert said("ls", packed).splitlines()[1] == "1  cat/b.JPEG"
    rows = json_said("ls", packed, "1:3", "dog/e.png", "-1")
    assert [row["index"] for row in rows] == [1, 2, 4, 4]
    assert rows[0]["fields"]["label"] == 0
    assert rows[0]["fields"]["image"].startswith("60x41:")


def test_ls_of_a_packed_folder(packed_files: Path, said: Said) -> None:
    assert said("ls", packed_files).split() == [
        word for i, name in enumerate(["a.txt", "index.jsonl", "sub/b.bin", "sub/deep/c"]) for word in (str(i), name)
    ]
    assert "data=256B" in said("ls", "-l", packed_files, "sub/b.bin")


def test_ls_of_an_archive(place: Path, said: Said) -> None:
    assert said("ls", "x.barecat") == "src/\n"
    assert said("ls", "-R", "x.barecat", "src/cat").split() == [f"src/cat/{i}.bin" for i in range(3)]
    assert "src/note\\n.txt" in said("ls", "-lR", "x.barecat")
    rows = json.loads(said("ls", "--json", "x.barecat", "**/*.bin"))
    assert [row["size"] for row in rows] == [1000, 2000, 3000]
    assert "nothing matches" in said("ls", "x.barecat", "*.nope", code=2)
    assert "does not exist" in said("ls", "x.barecat", "nope", code=2)
