"""Shards that grow: links, full disks, cuts."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

import pytest
from tests.unit.formats.barecat.tools import FILES

from headrace.errors import (
    FormatError,
)
from headrace.formats.barecat import Archive
from headrace.formats.barecat.edit import shard_writer
from headrace.transfer.merge import link_archives

if TYPE_CHECKING:
    from pathlib import Path


def test_symlinked_shards_are_not_written(full: Path, tmp_path: Path) -> None:
    link_archives([full], tmp_path / "link.barecat")
    with pytest.raises(FormatError, match="symbolic link"):
        Archive(tmp_path / "link.barecat")["d1/e1/1.bin"]
    linked = Archive(tmp_path / "link.barecat", follow_links=True)
    assert dict(linked.items()) == FILES
    assert linked.verify().ok
    with pytest.raises(FormatError, match="symbolic link"):
        Archive(tmp_path / "link.barecat", "r+")
    Archive(tmp_path / "link.barecat", "r+", allow_links=True).close()


def test_a_full_disk_loses_nothing_that_was_committed(full: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = shard_writer.write_all
    left = [150_000]

    def write_all(fd: int, buffers: list[bytes], position: int) -> None:
        size = sum(map(len, buffers))
        if size > left[0]:
            real(fd, [b"".join(buffers)[: left[0]]], position)
            raise OSError(errno.ENOSPC, "No space left on device")
        left[0] -= size
        real(fd, buffers, position)

    monkeypatch.setattr(shard_writer, "write_all", write_all)
    archive = Archive(full, "r+")
    archive.update_file("d1/e1/1.bin", b"new")  # in place: must be put back
    archive["first"] = bytes(20_000)
    with pytest.raises(OSError, match="No space left") as caught:
        archive.update({f"more/{i}": bytes(20_000) for i in range(100)})
    assert caught.value.errno == errno.ENOSPC
    with pytest.raises(OSError, match="not committed is lost"):
        archive["again"] = b""
    with pytest.raises(OSError, match="not committed is lost"):
        archive.commit()
    archive.close()
    assert dict(Archive(full).items()) == FILES
    assert Archive(full).verify().ok
    assert not os.path.exists(f"{full}-undo")
    assert sum(p.stat().st_size for p in full.parent.glob("*-shard-*")) == sum(map(len, FILES.values()))
