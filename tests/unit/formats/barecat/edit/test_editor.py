"""Changes to files."""

from __future__ import annotations

import io
import threading
from typing import TYPE_CHECKING

import pytest
from tests.unit.formats.barecat.tools import FILES

from headrace.errors import CorruptFileError, EntryIsDirectoryError, EntryNotFoundError, FileTooLargeError
from headrace.formats.barecat import Archive, Metadata
from headrace.formats.barecat.edit.editor import Editor
from headrace.formats.barecat.edit.transactions import WriteOptions

if TYPE_CHECKING:
    from pathlib import Path


def test_many_threads_write(path: Path) -> None:
    with Archive(path, "x", shard_size=5000) as archive:
        names = [list(FILES)[i::4] for i in range(4)]
        threads = [
            threading.Thread(target=lambda part=part: archive.update({n: FILES[n] for n in part})) for part in names
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert dict(Archive(path).items()) == FILES
    assert Archive(path).verify().ok


def test_what_is_written_can_be_read_at_once(path: Path) -> None:
    editor = Editor(str(path), WriteOptions(shard_size=100))
    place = editor.add("a/b", b"0123456789", Metadata())
    assert (place.shard, place.offset, place.size) == (0, 0, 10)
    assert editor.read("./a//b") == b"0123456789"
    assert editor.view("/a/b") == ("a/b", b"0123456789", place.crc32c)
    assert [bytes(editor.view("a/b", *part)[1]) for part in ((2, 3), (7, 9), (12, 1), (8,))] == [
        b"234",
        b"789",
        b"",
        b"89",
    ]
    assert editor.read_many(["a/b", "a/b"]) == [b"0123456789"] * 2
    with pytest.raises(EntryIsDirectoryError):
        editor.read("a")
    with pytest.raises(EntryNotFoundError):
        editor.read("c")
    editor.execute("UPDATE files SET size = 11")
    with pytest.raises(CorruptFileError, match="are not there"):
        editor.view("a/b")
    editor.close()


def test_checksums_are_checked_while_it_is_written(path: Path) -> None:
    for is_checked in (True, False):
        editor = Editor(str(path), is_checked=is_checked)
        if is_checked:
            editor.insert("bad", (*editor.add("good", b"1", Metadata())[:3], 1), Metadata())
            with pytest.raises(CorruptFileError, match="checksum"):
                editor.read("bad")
        else:
            assert editor.read("bad") == b"1"
        editor.close()


def test_bytes_without_a_row(path: Path) -> None:
    editor = Editor(str(path), WriteOptions(shard_size=100))
    place = editor.append("loose", io.BytesIO(b"abc"), 3)
    assert editor.shards.read(place.shard, place.offset, 3) == b"abc"
    assert list(editor.index.file_names()) == []
    editor.insert("named", place, Metadata())
    assert editor.read("named") == b"abc"
    with pytest.raises(FileTooLargeError):
        editor.append("large", io.BytesIO(bytes(101)), 101)
    editor.close()


def test_the_last_file_is_cut_off_and_others_leave_a_gap(path: Path) -> None:
    with Archive(path, "x") as archive:
        for name in "abc":
            archive[name] = bytes(10_000)
        del archive["a"]
        archive.commit()
        assert archive.editor.shards.end(0) == 30_000
        del archive["c"]
        assert archive.editor.shards.end(0) == 20_000
