"""Bytes from file to file."""

from __future__ import annotations

import io
import os
import socket
from typing import TYPE_CHECKING, Any

import pytest

from headrace._native import crc32c
from headrace.compat.barecat.io.copyfile import accumulate_crc32c, copy, copy_crc32c, write_zeroes

if TYPE_CHECKING:
    from pathlib import Path

DATA = bytes(range(256)) * 50


@pytest.fixture(params=["memory", "disk"])
def files(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    if request.param == "memory":
        yield io.BytesIO(DATA), io.BytesIO()
        return
    (tmp_path / "a").write_bytes(DATA)
    with open(tmp_path / "a", "r+b") as source, open(tmp_path / "b", "w+b") as target:
        yield source, target


def content(file: Any) -> bytes:
    file.seek(0)
    data: bytes = file.read()
    return data


def test_all_and_parts(files: Any) -> None:
    source, target = files
    source.seek(10)
    assert copy(source, target) == len(DATA) - 10
    assert target.tell() == len(DATA) - 10
    assert content(target) == DATA[10:]
    source.seek(5)
    target.seek(2)
    target.truncate(2)
    assert copy_crc32c(source, target, 100, bufsize=7) == (100, crc32c(DATA[5:105]))
    assert (source.tell(), target.tell()) == (105, 102)
    assert copy(source, target, 10**9) == len(DATA) - 105
    assert copy(source, target, 0) == 0
    assert copy_crc32c(source, target, 5, initial=9) == (0, 9)


def test_offsets_leave_positions_alone(files: Any) -> None:
    source, target = files
    source.seek(3)
    target.write(bytes(50))
    target.seek(4)
    assert copy_crc32c(source, target, 20, src_offset=100, dst_offset=10) == (20, crc32c(DATA[100:120]))
    assert (source.tell(), target.tell()) == (3, 4)
    assert content(target) == bytes(10) + DATA[100:120] + bytes(20)


@pytest.mark.parametrize(("start", "to"), [(0, 100), (100, 0), (0, 5000), (300, 301), (301, 300)])
@pytest.mark.parametrize("bufsize", [7, 1 << 16])
def test_inside_one_file(files: Any, start: int, to: int, bufsize: int) -> None:
    source, _ = files
    source.seek(17)
    assert copy_crc32c(source, source, 4000, start, to, bufsize) == (4000, crc32c(DATA[start : start + 4000]))
    expected = bytearray(DATA)
    expected[to : to + 4000] = DATA[start : start + 4000]
    assert source.tell() == 17
    assert content(source) == bytes(expected)


def test_two_handles_of_one_file(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(DATA)
    with open(tmp_path / "f", "rb") as source, open(tmp_path / "f", "r+b") as target:
        target.seek(50)
        assert copy(source, target, 1000, bufsize=16) == 1000
        assert (source.tell(), target.tell()) == (1000, 1050)
    assert (tmp_path / "f").read_bytes() == DATA[:50] + DATA[:1000] + DATA[1050:]


def test_pipes() -> None:
    read, write = os.pipe()
    with os.fdopen(read, "rb") as source, os.fdopen(write, "wb") as target:
        assert copy(io.BytesIO(DATA[:500]), target) == 500
        target.close()
        out = io.BytesIO()
        assert copy_crc32c(source, out) == (500, crc32c(DATA[:500]))
        assert out.getvalue() == DATA[:500]


def test_sums_and_zeros(files: Any) -> None:
    source, target = files
    assert accumulate_crc32c(source) == crc32c(DATA)
    assert accumulate_crc32c(source, 10, 5) == crc32c(DATA[5:15])
    assert accumulate_crc32c(source, offset=5, initial=crc32c(DATA[:5])) == crc32c(DATA)
    assert accumulate_crc32c(source, 10**9, 0, bufsize=3) == crc32c(DATA)
    target.write(b"x")
    assert write_zeroes(target, 1000, bufsize=64) == 1000
    assert write_zeroes(target, 0) == write_zeroes(target, -3) == 0
    assert content(target) == b"x" + bytes(1000)


def test_sockets(files: Any) -> None:
    source, _ = files
    ours, theirs = socket.socketpair()
    with ours, theirs:
        source.seek(7)
        with ours.makefile("wb") as out:
            assert copy(source, out, 3000) == 3000
        assert source.tell() == 3007
        ours.shutdown(socket.SHUT_WR)
        received = b"".join(iter(lambda: theirs.recv(4096), b""))
    assert received == DATA[7:3007]


def test_into_a_pipe(files: Any) -> None:
    source, _ = files
    read, write = os.pipe()
    with os.fdopen(read, "rb") as back, os.fdopen(write, "wb") as target:
        target.write(b"head ")
        assert copy(source, target, 1000, src_offset=100) == 1000
        assert source.tell() == 0
        target.close()
        assert back.read() == b"head " + DATA[100:1100]


def test_what_python_has_read_ahead_is_copied(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(DATA)
    with open(tmp_path / "a", "rb") as source, open(tmp_path / "b", "w+b") as target:
        assert source.read(3) == DATA[:3]
        target.write(b"<")
        assert copy(source, target, 50) == 50
        target.write(b">")
        assert source.read(2) == DATA[53:55]
    assert (tmp_path / "b").read_bytes() == b"<" + DATA[3:53] + b">"
    read, write = os.pipe()
    with os.fdopen(read, "rb") as pipe, os.fdopen(write, "wb") as out:
        out.write(b"abcdef")
        out.close()
        assert pipe.read(2) == b"ab"
        with open(tmp_path / "c", "w+b") as target:
            assert copy(pipe, target, 4) == 4
    assert (tmp_path / "c").read_bytes() == b"cdef"
