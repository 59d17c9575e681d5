"""Many files at once, from memory and from the disk: the same bytes, the same errors."""

from __future__ import annotations

import os
import pickle
import random
import re
import sqlite3
import threading
from typing import TYPE_CHECKING

import numpy as np
import pytest

import headrace
from headrace import _native
from headrace.errors import CorruptFileError, CorruptSampleError, FormatError, HeadraceError
from headrace.formats.barecat import Archive
from headrace.storage import ColdReads

if TYPE_CHECKING:
    from pathlib import Path

CHANCE = random.Random(5)
FILES = {f"{i % 7}/{i:03}": CHANCE.randbytes(i * 37 % 9001) for i in range(300)}
NAMES = CHANCE.sample(list(FILES), 200) + list(FILES)[:3]
WAYS = [True, False, None]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "x.barecat"
    with Archive(path, "x", shard_size=200_000) as archive:
        archive.update(FILES)
    assert archive_has_many_shards(path)
    return path


def archive_has_many_shards(path: Path) -> bool:
    return len(list(path.parent.glob("x.barecat-shard-*"))) > 3


@pytest.mark.parametrize("cold", WAYS)
@pytest.mark.parametrize("preload", [False, True])
def test_all_ways_give_the_same(path: Path, cold: bool | None, preload: bool) -> None:
    archive = Archive(path, cold=cold, preload=preload)
    assert archive.read_many(NAMES) == [FILES[name] for name in NAMES]
    assert archive.read_many(NAMES[:1]) == [FILES[NAMES[0]]]
    assert archive.read_many([]) == []
    assert pickle.loads(pickle.dumps(archive)).read_many(NAMES) == [FILES[name] for name in NAMES]


def test_cold_reads_are_really_used(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    used = []
    original = ColdReads.reader_for
    monkeypatch.setattr(ColdReads, "reader_for", lambda *spans: used.append(original(*spans)) or used[-1])
    Archive(path, cold=True).read_many(NAMES)
    assert isinstance(used[-1], _native.RangeReader)
    used.clear()
    Archive(path, cold=False).read_many(NAMES)
    assert not any(used)


@pytest.mark.parametrize("cold", WAYS)
def test_as_a_dataset(path: Path, cold: bool | None) -> None:
    dataset = headrace.open(path, decode="bytes", cold=cold)
    order = CHANCE.sample(range(len(FILES)), 150)
    assert dataset.read_bytes(order, "bytes") == [FILES[sorted(FILES)[i]] for i in order]
    ragged = dataset.read_ragged(np.array(order), "bytes")
    assert ragged.values.tobytes() == b"".join(FILES[sorted(FILES)[i]] for i in order)


def test_the_plan_says_how_files_are_read(path: Path) -> None:
    plans = {cold: str(headrace.Loader(headrace.open(path, decode="bytes", cold=cold), 4).plan()) for cold in WAYS}
    assert "from the mapped file" in plans[False]
    assert re.search("past the page cache by (io_uring|threads)|read by (io_uring|threads)", plans[True])
    assert re.search("from the page cache, or else read.* by (io_uring|threads)", plans[None])


@pytest.mark.parametrize("cold", WAYS)
def test_a_damaged_file_is_named(path: Path, cold: bool | None) -> None:
    info = Archive(path).stat("3/150")
    with open(f"{path}-shard-{info.shard:05}", "r+b") as file:
        file.seek(info.offset + 5)
        file.write(b"????")
    archive = Archive(path, cold=cold)
    with pytest.raises(CorruptFileError, match=r"3/150.*checksum 0x[0-9a-f]{8} expected, found 0x[0-9a-f]{8}"):
        archive.read_many(list(FILES))
    assert len(Archive(path, cold=cold, checksums=False).read_many(list(FILES))) == len(FILES)
    with pytest.raises(CorruptSampleError, match="3/150"):
        headrace.open(path, decode="bytes", cold=cold).read_ragged(np.arange(len(FILES)), "bytes")


@pytest.mark.parametrize("cold", WAYS)
def test_a_file_without_a_checksum_is_read_and_the_others_are_checked(path: Path, cold: bool | None) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE files SET crc32c = NULL WHERE path = '3/150'")
        connection.execute("UPDATE files SET crc32c = 1 WHERE path = '4/151'")
    names = list(FILES)
    names.remove("4/151")
    archive = Archive(path, cold=cold)
    assert archive.read_many(names) == [FILES[name] for name in names]
    with pytest.raises(CorruptFileError, match="4/151"):
        archive.read_many(list(FILES))


@pytest.mark.parametrize("cold", WAYS)
def test_shards_that_are_short_or_missing(path: Path, cold: bool | None) -> None:
    os.truncate(f"{path}-shard-00001", 1000)
    with pytest.raises(CorruptFileError, match=r"bytes at byte \d+ of x.barecat-shard-00001, which has 1000 bytes"):
        Archive(path, cold=cold).read_many(list(FILES))
    os.unlink(f"{path}-shard-00001")
    with pytest.raises(FormatError, match="this shard is missing"):
        Archive(path, cold=cold).read_many(list(FILES))


@pytest.mark.parametrize("numbers", ["offset = -5", "size = -1", "size = 1 << 62", "shard = 99999", "offset = 1 << 62"])
@pytest.mark.parametrize("cold", WAYS)
def test_places_that_cannot_be(path: Path, cold: bool | None, numbers: str) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute(f"UPDATE files SET {numbers} WHERE path = '3/150'")
    with pytest.raises(HeadraceError, match=r"3/150|shard-99999"):
        Archive(path, cold=cold).read_many(list(FILES))


def test_a_shard_that_grows_is_followed(path: Path) -> None:
    archive = Archive(path)
    archive.read_many(NAMES)
    with Archive(path, "a") as writer:
        writer["new/1"] = b"x" * 5000
        writer["new/2"] = b"y" * 5000
    assert archive.read_many(["new/1", *NAMES, "new/2"])[0] == b"x" * 5000


def test_an_archive_that_is_replaced_is_followed(path: Path) -> None:
    archive = Archive(path)
    archive.read_many(NAMES)
    other = {name: data[::-1] for name, data in FILES.items()}
    with Archive(path, "w") as writer:
        writer.update(other)
    assert archive.read_many(["0/000", "3/150", "4/151"]) in (
        [FILES["0/000"], FILES["3/150"], FILES["4/151"]],  # what was mapped is still there
        [other["0/000"], other["3/150"], other["4/151"]],
    )
    assert archive.refresh()
    assert archive.read_many(NAMES) == [other[name] for name in NAMES]


def test_threads_that_map_shards_at_once(path: Path) -> None:
    for _ in range(20):
        archive = Archive(path)
        results: list[bool] = []
        parts = [NAMES[i::8] for i in range(8)]

        def read(part: list[str], archive: Archive = archive, results: list[bool] = results) -> None:
            results.append(archive.read_many(part) == [FILES[name] for name in part])

        threads = [threading.Thread(target=read, args=(part,)) for part in parts]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert results == [True] * len(parts)


def test_cold_is_for_reading(path: Path) -> None:
    with pytest.raises(ValueError, match="for reading"):
        Archive(path, "a", cold=True)
