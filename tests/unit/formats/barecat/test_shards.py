"""Shards that are mapped when they are needed."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np
import pytest

from headrace.errors import ClosedError, FormatError
from headrace.formats.barecat.names import shard_path
from headrace.formats.barecat.shards import MappedShards

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def shards(path: Path) -> MappedShards:
    for number, data in ((0, b"abc"), (2, b"defgh")):
        with open(shard_path(str(path), number), "wb") as file:
            file.write(data)
    return MappedShards(str(path))


def test_only_what_is_needed_is_mapped(shards: MappedShards) -> None:
    assert bytes(shards.shard(2).view[1:3]) == b"ef"
    assert list(shards.mapped) == [2]
    assert shards.shard(2) is shards.shard(2, 5)


def test_a_shard_that_has_grown_is_mapped_anew(shards: MappedShards, path: Path) -> None:
    assert shards.shard(0).size == 3
    with open(shard_path(str(path), 0), "ab") as file:
        file.write(b"more")
    assert shards.shard(0, 3).size == 3
    assert shards.shard(0, 7).size == 7


def test_spans_that_are_not_there(shards: MappedShards) -> None:
    shard = shards.shard(0)
    assert shard.problem_of(0, 3) is None
    for offset, size in ((-1, 1), (0, 4), (2, -1), (4, 0)):
        assert "which has 3 bytes" in str(shard.problem_of(offset, size))


def test_shards_that_cannot_be(shards: MappedShards) -> None:
    with pytest.raises(FormatError, match="this shard is missing"):
        shards.shard(1)
    with pytest.raises(FormatError, match="cannot exist"):
        shards.shard(-1)


def test_files_of_the_queue(shards: MappedShards) -> None:
    assert shards.is_cold(np.array([1]), np.zeros(1, np.uint64), np.ones(1, np.uint64)) is False
    shards.describe()
    queue = shards.queue(np.array([2, 0, 2]))
    assert queue is None or queue[1].tolist() == [1, 0, 1] or queue[1].tolist() == [0, 1, 0]


def test_views_outlive_the_mapping(shards: MappedShards, path: Path) -> None:
    view = shards.shard(0).view
    shards.close()
    os.unlink(shard_path(str(path), 0))
    assert bytes(view) == b"abc"
    with pytest.raises(ClosedError):
        shards.shard(0)


def test_a_shard_that_was_mapped_while_all_were_forgotten_is_not_kept(path: Path) -> None:
    shards = MappedShards(str(path), cold=True, check=lambda: shards.forget())
    with open(shard_path(str(path), 0), "wb") as file:
        file.write(b"old")
    old = shards.shard(0)
    assert shards.mapped == {}
    snapshot = shards.snapshot_with({0: old})
    assert snapshot.shards == {0: old}
    assert shards.snapshot.shards == {}
    queue = shards.queue(np.zeros(3, np.int64))
    assert queue is not None
    assert queue[1].tolist() == [0, 0, 0]
