"""``headrace info``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import Any

    Said = Callable[..., str]
    JsonSaid = Callable[..., Any]


def test_info(packed: Path, said: Said, json_said: JsonSaid) -> None:
    summary = json_said("info", packed)
    assert summary["samples"] == 5
    assert summary["fields"]["image"]["images"] == {"jpg": 5, "raw": 0, "unknown": 0}
    assert summary["annex"]["where"] == "embedded"
    assert summary["pages"] == 1
    assert 0 < summary["page_use"] < 1
    assert summary["size_bytes"] == packed.stat().st_size
    text = said("info", packed)
    for word in ("5 samples", "5 jpg", "checksums", "2 in field 'label'"):
        assert word in text


def test_info_of_a_folder(folder: Path, json_said: JsonSaid) -> None:
    summary = json_said("info", folder)
    assert (summary["format"], summary["samples"]) == ("folder", 5)


def test_info_of_a_packed_folder(packed_files: Path, said: Said, json_said: JsonSaid) -> None:
    about = json_said("info", packed_files)
    assert (about["format"], about["samples"], about["is_packed_folder"]) == ("ffr", 4, True)
    text = said("info", packed_files)
    assert "of every sample and header" in text
    assert "4 files by path" in text
