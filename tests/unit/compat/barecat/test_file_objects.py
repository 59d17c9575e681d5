"""Files of an archive as file objects, and shards as files."""

from __future__ import annotations

import io
import os
import random
from typing import TYPE_CHECKING

import pytest

from headrace.compat.barecat import (
    Barecat,
    BarecatFileObject,
    BarecatIntegrityError,
    BarecatReadOnlyFileObject,
    BarecatReadWriteFileObject,
    FileTooLargeBarecatError,
    Sharder,
)

from .conftest import CONTENT

if TYPE_CHECKING:
    from pathlib import Path


def test_reading(reader: Barecat) -> None:
    with reader.open("dir/b.txt", "rb") as file:
        assert isinstance(file, BarecatReadOnlyFileObject)
        assert isinstance(file, BarecatFileObject)
        assert (len(file), file.size, file.readable(), file.writable(), file.seekable()) == (11, 11, True, False, True)
        assert file.read(3) == b"sec"
        assert file.tell() == 3
        assert file.seek(-4, io.SEEK_END) == 7
        assert file.readall() == b"file"
        assert file.read() == b""
        assert file.seek(100) == 100
        assert file.read(5) == b""
        file.seek(0)
        buffer = bytearray(6)
        assert file.readinto(buffer) == 6
        assert bytes(buffer) == b"second"
        for bad in (lambda: file.seek(-1), lambda: file.seek(0, 9)):
            with pytest.raises(ValueError, match=r"Negative|whence"):
                bad()
        for refused in (lambda: file.write(b""), file.truncate):
            with pytest.raises(io.UnsupportedOperation):
                refused()
    info = reader.index.lookup_file("a.txt")
    assert reader.open(info).read() == "first"


def test_lines_and_text(path: str) -> None:
    text = "eins\nzwei drei\n\nvi\u00e9r"
    with Barecat(path, readonly=False) as bc:
        with bc.open("t", "w", encoding="latin-1") as file:
            file.write(text)
        assert bc["t"] == text.encode("latin-1")
        with bc.open("t", "r", encoding="latin-1") as file:
            assert file.read() == text
        with bc.open("t", "rb") as binary:
            assert list(binary) == text.encode("latin-1").splitlines(keepends=True)
        with bc.open("t", encoding="latin-1", newline="") as file:
            assert file.readline() == "eins\n"
        with bc.open("t", encoding="utf-8", errors="replace") as file:
            assert "\ufffd" in file.read()


def test_a_file_is_sent(reader: Barecat, tmp_path: Path) -> None:
    with open(tmp_path / "out", "w+b") as out, reader.open("dir/b.txt", "rb") as file:
        assert file.sendfile(out.fileno(), 7) == 4
        assert out.read() == b"file" or (out.seek(0), out.read())[1] == b"file"
        with pytest.raises(ValueError, match="bounds"):
            file.sendfile(out.fileno(), 50)


@pytest.mark.parametrize("seed", range(8))
def test_edits_are_those_of_python(path: str, tmp_path: Path, seed: int) -> None:
    """The same calls on a file of an archive and on one of the disk."""
    rng = random.Random(seed)
    plain = tmp_path / "plain"
    with Barecat(path, readonly=False) as bc:
        for _ in range(12):
            mode = rng.choice(["wb", "w+b", "ab", "a+b", "r+b"]) if plain.exists() else "xb"
            with bc.open("f", mode) as file, open(plain, mode, buffering=0) as other:
                assert isinstance(file, BarecatReadWriteFileObject)
                for _ in range(rng.randint(0, 4)):
                    size = rng.randint(0, 80)
                    step = rng.choice(["write", "seek", "truncate", "read"])
                    if step == "write":
                        data = rng.randbytes(size)
                        assert file.write(data) == other.write(data)
                        continue
                    if step == "seek":
                        assert file.seek(size) == other.seek(size)
                    elif step == "truncate":
                        assert file.truncate(size) == other.truncate(size)
                    elif "+" in mode:
                        assert file.read(size) == other.read(size)
                    assert file.tell() == other.tell()
            assert bc["f"] == plain.read_bytes()
        assert bc.verify_integrity()


def test_nothing_is_stored_before_it_is_closed(writer: Barecat) -> None:
    file = writer.open("new", "wb")
    file.write(b"123")
    assert "new" not in writer
    assert len(file) == 3
    file.flush()
    file.close()
    file.close()
    assert writer["new"] == b"123"
    with pytest.raises(ValueError, match="closed"):
        file.write(b"4")
    info = writer.index.lookup_file("new")
    with writer.open("new", "r+b") as file:
        file.read()
    assert writer.index.lookup_file("new").asdict() == info.asdict()
    with writer.open("new", "wb"):
        pass
    assert writer["new"] == b""
    with writer.open("none", "wb"):
        pass
    assert writer.index.lookup_file("none").asdict()["offset"] == 0
    with writer.open("ro", "wb") as file, pytest.raises(io.UnsupportedOperation):
        file.read()


@pytest.mark.parametrize("mode", ["", "rw", "rbt", "rr", "q"])
def test_unknown_modes(writer: Barecat, mode: str) -> None:
    with pytest.raises(ValueError, match="mode"):
        writer.open("a.txt", mode)


def test_shards_are_files(writer: Barecat, filled: str) -> None:
    sharder = writer.sharder
    assert sharder.num_shards == len(sharder.shard_files) == 1
    shard = sharder.last_shard_file
    assert shard.name == sharder.get_shard_path(0) == f"{filled}-shard-00000"
    assert shard.seek(0, os.SEEK_END) == sharder.physical_shard_end(0) == sum(map(len, CONTENT.values()))
    writer["late"] = b"tail"
    shard.seek(-4, os.SEEK_END)
    assert shard.read() == b"tail"
    assert os.pread(shard.fileno(), 4, shard.tell() - 4) == b"tail"
    shard.seek(0)
    assert shard.write(b"F") == 1
    assert not writer.check_crc32c("a.txt")
    with Sharder(filled) as reading:
        assert reading.read_from_address(0, 0, 5) == b"First"
        with pytest.raises(BarecatIntegrityError):
            reading.read_from_address(0, 0, 5, 1)
        with pytest.raises(PermissionError):
            reading.start_new_shard()


def test_shards_by_themselves(path: str) -> None:
    with Sharder(path, shard_size_limit=100, readonly=False) as sharder:
        assert sharder.add(data=b"x" * 60)[:3] == (0, 0, 60)
        assert sharder.add(fileobj=io.BytesIO(b"y" * 60))[:3] == (1, 0, 60)
        assert sharder.reserve(30) == (1, 60)
        assert sharder.add(1, 60, data=b"z" * 30)[:3] == (1, 60, 30)
        with pytest.raises(FileTooLargeBarecatError):
            sharder.add(data=bytes(101))
        with pytest.raises(ValueError, match="does not fit"):
            sharder.add(1, 90, data=bytes(20), raise_if_cannot_fit=True)
        with pytest.raises(ValueError, match="belong together"):
            sharder.add(1, data=b"")
        assert sharder.start_new_shard().number == 2
        assert (sharder.num_shards, sharder.total_physical_size_seek) == (3, 150)
        buffer = bytearray(30)
        assert sharder.readinto_from_address(1, 60, buffer) == 30
        assert bytes(buffer) == b"z" * 30
        with sharder.open_from_address(0, 10, 5) as file:
            assert file.read() == b"x" * 5
        sharder.truncate_all_to_logical_size([60, 80, 0])
        assert sharder.num_shards == 2
    assert os.path.getsize(f"{path}-shard-00001") == 80
