"""Gaps taken out, and shards of another size."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from tests.unit.formats.barecat.tools import FILES

from headrace.errors import (
    ArchiveBusyError,
    FileTooLargeError,
)
from headrace.formats.barecat import Archive, Metadata
from headrace.formats.barecat.edit.maintenance import defragment, find_gaps, reshard

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("method", ["full", "smart", "quick"])
def test_defragmenting(full: Path, method: str) -> None:
    left = dict(FILES)
    with Archive(full, "r+") as archive:
        with archive.open("made-by-open", "w"):
            pass  # an empty file at the beginning of a shard is no gap
        left["made-by-open"] = b""
        for name in list(FILES)[::3]:
            del archive[name]
            del left[name]
        gaps = sum(size for _, _, size in find_gaps(archive))
        assert gaps > 0
        freed = defragment(archive, method)  # type: ignore[arg-type]
        assert freed > 0
        if method != "quick":
            assert find_gaps(archive) == []
        archive["after"] = b"still works"
        left["after"] = b"still works"
    assert dict(Archive(full).items()) == left
    assert Archive(full).verify().ok


@pytest.mark.parametrize("method", ["full", "smart", "quick"])
def test_defragmenting_with_empty_files_at_the_end(path: Path, method: str) -> None:
    with Archive(path, "x", shard_size=300) as archive:
        for name in "abcd":
            archive[name] = name.encode() * 150
        archive["empty"] = b""  # at byte 300 of shard 1
        archive["e"] = b"e" * 150
        archive["last"] = b""
        for name in "ae":
            del archive[name]
        assert archive.stat("last").shard == 2
        assert defragment(archive, method) == 150  # type: ignore[arg-type]
        assert find_gaps(archive) == []
        archive["more"] = b"m" * 100
    with Archive(path) as archive:
        assert archive.verify().ok
        assert dict(archive) == {n: n.encode() * 150 for n in "bcd"} | {"empty": b"", "last": b"", "more": b"m" * 100}
        assert all(info.shard < 2 for info in archive.files())
    assert [os.path.getsize(f"{path}-shard-0000{i}") for i in range(2)] == [300, 250]


@pytest.mark.parametrize("shard_size", [None, 50])
def test_nothing_but_empty_files(path: Path, shard_size: int | None) -> None:
    with Archive(path, "x", shard_size=shard_size) as archive:
        archive.update({"a": b"a" * 50, "b": b"b" * 50, "empty": b""})
        archive.commit()
        del archive["a"]
        del archive["b"]
        defragment(archive, "quick")
        assert archive.stat("empty").size == 0
    assert os.path.getsize(f"{path}-shard-00000") == 0
    assert not os.path.exists(f"{path}-shard-00001")
    assert Archive(path).verify().ok


def test_resharding(full: Path) -> None:
    with Archive(full, "r+") as archive:
        with pytest.raises(FileTooLargeError):
            reshard(archive, 100)
        for size in (1000, 50_000, 3000):
            reshard(archive, size)
            assert archive.shard_size == size
            assert dict(archive.items()) == FILES
        archive["after"] = bytes(3000)
        with pytest.raises(ArchiveBusyError):
            Archive(full, "r+")
    assert dict(Archive(full).items()) == FILES | {"after": bytes(3000)}
    assert Archive(full).verify().ok
    assert not [name for name in os.listdir(full.parent) if name.endswith(".new")]


def test_empty_files_share_no_bytes(path: Path) -> None:
    """Where one has the place of another file, it goes behind that one, whether there is a gap or not."""
    with Archive(path, "x") as archive:
        archive.update({"gap": bytes(9000), "big": b"x" * 5000, "last": b"y" * 100})
        for name in ("gap", "big"):
            archive.editor.insert(f"empty-{name}", (0, 0 if name == "gap" else 9000, 0, 0), Metadata())
        defragment(archive)
        assert archive["big"] == b"x" * 5000
        archive.remove("gap")
        assert defragment(archive) == 9000
        places = {info.path: info.offset for info in archive.files()}
        assert places == {"big": 0, "last": 5000, "empty-gap": 5000, "empty-big": 5100}
        assert archive["last"] == b"y" * 100
    assert Archive(path).verify().ok
