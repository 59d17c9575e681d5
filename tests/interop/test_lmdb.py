"""The lmdb package and headrace read each other's files."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

import headrace as hr

if TYPE_CHECKING:
    from pathlib import Path

lmdb = pytest.importorskip("lmdb")


def test_the_package_reads_ours(tmp_path: Path) -> None:
    path, rng = tmp_path / "x.lmdb", random.Random(0)
    names = [f"{rng.randrange(10**9):x}" for _ in range(2000)]
    values = [rng.randbytes(rng.choice([0, 10, 3000, 20_000])) for _ in names]
    hr.write(path, values, fields={"data": hr.Bytes()}, names=names)
    with lmdb.open(str(path), subdir=False, lock=False, readonly=True) as environment, environment.begin() as reader:
        assert [reader.get(name.encode()) for name in names] == values
        assert sum(1 for _ in reader.cursor()) == len(names)


@pytest.mark.parametrize("writemap", [False, True])
def test_we_read_theirs(tmp_path: Path, writemap: bool) -> None:
    rng = random.Random(1)
    pairs = {rng.randbytes(rng.randrange(1, 400)): rng.randbytes(rng.randrange(6000)) for _ in range(3000)}
    with lmdb.open(str(tmp_path / "x"), map_size=64 << 20, writemap=writemap) as environment:
        for part in range(6):
            with environment.begin(write=True) as writer:
                for key in list(pairs)[part::6]:
                    writer.put(key, pairs[key])
    dataset = hr.open(tmp_path / "x", decode="bytes")
    assert dataset.read_bytes(range(len(dataset)), "data") == [pairs[key] for key in sorted(pairs)]
