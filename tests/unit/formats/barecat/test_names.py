"""Names of the files of an archive."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from headrace.formats.barecat.names import (
    MAX_SHARDS,
    archive_exists,
    archive_files,
    archive_path,
    beside_path,
    incomplete_files,
    index_path,
    is_part_of,
    making_path,
    shard_numbers,
    shard_path,
)

if TYPE_CHECKING:
    from pathlib import Path


def test_shards_have_five_digits(tmp_path: Path) -> None:
    path = str(tmp_path / "x.barecat")
    for number in (3, 0, 12):
        open(shard_path(path, number), "wb").close()
    open(f"{path}-shard-1", "wb").close()
    assert shard_numbers(path) == [0, 3, 12]
    for number in (-1, MAX_SHARDS):
        with pytest.raises(ValueError, match="shard numbers go from 0"):
            shard_path(path, number)


def test_the_index_may_have_its_old_name(tmp_path: Path) -> None:
    path = str(tmp_path / "x.barecat")
    assert not archive_exists(path)
    (tmp_path / "x.barecat-sqlite-index").write_bytes(b"")
    assert archive_exists(path)
    assert index_path(path) == f"{path}-sqlite-index"
    assert archive_path(index_path(path)) == path
    assert archive_files(path) == [f"{path}-sqlite-index"]


def test_hidden_names_are_found_again(tmp_path: Path) -> None:
    path = str(tmp_path / "x.barecat")
    beside = beside_path(path)
    for file in (beside, shard_path(beside, 0), making_path(path), f"{beside}.txt"):
        open(file, "wb").close()
    assert sorted(incomplete_files(path)) == sorted([beside, shard_path(beside, 0)])
    assert is_part_of(shard_path(beside, 0), path)
    assert not is_part_of(f"{beside}.txt", path)
