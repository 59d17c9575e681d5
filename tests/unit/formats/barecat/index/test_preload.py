"""The whole index in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.unit.formats.barecat.tools import TEXTS, spoil

from headrace.formats.barecat import Archive

if TYPE_CHECKING:
    from pathlib import Path


def test_no_more_memory_than_an_index_can_name(texts: Path) -> None:
    spoil(texts, "UPDATE dirs SET num_files_tree = ? WHERE path = ''", 2**40)
    with Archive(texts, preload=True) as archive:
        assert archive.read_many(list(TEXTS)) == list(TEXTS.values())
