"""What takes entries."""

from __future__ import annotations

import io
import os
import tarfile
import zipfile
from functools import partial
from typing import TYPE_CHECKING

import pytest

from headrace.errors import EntryExistsError
from headrace.formats.barecat import Archive, Metadata
from headrace.formats.report import Transfer
from headrace.transfer.entry import Entry
from headrace.transfer.sinks import ArchiveSink, open_sink

if TYPE_CHECKING:
    from pathlib import Path

ABOUT = Metadata(0o640, 1, 2, 10**18)
ENTRIES = [
    Entry("d", True, 0, ABOUT),
    Entry("d/a", False, 3, ABOUT, partial(io.BytesIO, b"abc")),
    Entry("b", False, 2_000_000, ABOUT, partial(io.BytesIO, bytes(2_000_000))),
]


@pytest.mark.parametrize("name", ["x.barecat", "x.tar", "x.tar.gz", "x.zip", "out"])
def test_all_or_nothing(tmp_path: Path, name: str) -> None:
    sink = open_sink(str(tmp_path / name))
    for entry in ENTRIES:
        sink.put(entry)
    sink.finish()
    if name == "x.barecat":
        assert Archive(tmp_path / name).stat("d").metadata == ABOUT
        assert Archive(tmp_path / name)["d/a"] == b"abc"
    elif name == "out":
        assert (tmp_path / "out" / "d" / "a").stat().st_mtime_ns == 10**18
    elif name == "x.zip":
        with zipfile.ZipFile(tmp_path / name) as file:
            assert file.read("d/a") == b"abc"
    else:
        with tarfile.open(tmp_path / name) as tar:
            assert tar.getmember("d/a").mode == 0o640
    if name != "out":
        with pytest.raises(FileExistsError, match="--force"):
            open_sink(str(tmp_path / name))
        before = (tmp_path / name).read_bytes()
        sink = open_sink(str(tmp_path / name), force=True)
        sink.put(ENTRIES[1])
        sink.abort(ValueError("stop"))
        assert (tmp_path / name).read_bytes() == before
        assert not [file for file in os.listdir(tmp_path) if "incomplete" in file]


def test_streams_take_what_is_one_file() -> None:
    stream = io.BytesIO()
    sink = open_sink(stream, kind="tar")
    sink.put(ENTRIES[1])
    sink.finish()
    stream.seek(0)
    with tarfile.open(fileobj=stream) as tar:
        assert tar.getnames() == ["d/a"]
    with pytest.raises(ValueError, match="cannot go into a stream"):
        open_sink(stream, kind="archive")
    with pytest.raises(ValueError, match="give a kind"):
        open_sink(stream)


def test_files_that_are_there_already(path: Path) -> None:
    with Archive(path, "x") as archive:
        archive["p/d/a"] = b"old"
        with pytest.raises(EntryExistsError):
            ArchiveSink(archive, prefix="/p/").put(ENTRIES[1])
        result = Transfer()
        ArchiveSink(archive, prefix="p", ignore_duplicates=True).put_counted(ENTRIES[1], result)
        assert (result.files, result.skipped) == (0, ["p/d/a: exists already"])
        sink = ArchiveSink(archive, prefix="p", replace=True)
        for entry in ENTRIES:
            sink.put_counted(entry, result)
        sink.finish()
        assert (result.files, result.dirs, result.size_bytes) == (2, 1, 2_000_003)
        assert archive["p/d/a"] == b"abc"
        assert archive.stat("p/d").mtime_ns == 10**18
