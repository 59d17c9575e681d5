from __future__ import annotations

import struct
import zlib

import numpy as np
import pytest

from headrace._native import FfrTable, NativeError, check_ffr_header, check_ffr_offsets, crc32, crc32_buffers


def ffr(*samples: bytes) -> np.ndarray:
    n = len(samples)
    offsets = np.cumsum([12 + 12 * n, *map(len, samples)])[:-1]
    tables = np.array([zlib.crc32(s) for s in samples], "<u4").tobytes() + offsets.astype("<i8").tobytes()
    return np.frombuffer(struct.pack("<Iq", 0, n) + tables + b"".join(samples), np.uint8)


def i64(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def test_locate_and_copy() -> None:
    table = FfrTable([ffr(b"abc", b""), ffr(), ffr(b"defgh")], [2, 0, 1])
    assert len(table) == 3
    files, offsets, sizes, sums = table.locate(i64(2, 0, 1, 2))
    assert files.tolist() == [2, 0, 0, 2]
    assert offsets.tolist() == [24, 36, 39, 24]
    assert sizes.tolist() == [5, 3, 0, 5]
    found = np.zeros(4, np.uint32)
    assert table.copy_bytes(files, offsets, sizes, found) == [b"defgh", b"abc", b"", b"defgh"]
    assert (found == sums).all()
    out = np.zeros(20, np.uint8)
    table.copy_into(files, offsets, sizes, out, np.array([0, 6, 6, 12], np.uint64))
    assert out.tobytes() == b"defgh\0abc\0\0\0defgh\0\0\0"
    outs = [bytearray(n) for n in sizes.tolist()]
    table.copy_into_each(files, offsets, sizes, outs)
    assert outs == [b"defgh", b"abc", b"", b"defgh"]


def test_wrong_arguments() -> None:
    one = ffr(b"abc")
    with pytest.raises(NativeError, match="tables of 2 samples do not fit into 27 bytes"):
        FfrTable([one], [2])
    with pytest.raises(NativeError, match="1 files, but 0 counts"):
        FfrTable([one], [])
    table = FfrTable([one], [1])
    for bad in (1, -1):
        with pytest.raises(NativeError, match="there are 1") as caught:
            table.locate(i64(0, bad))
        assert caught.value.offset == 1
    files, offsets, sizes, _ = table.locate(i64(0))
    with pytest.raises(NativeError, match="leaves the region"):
        table.copy_into(files, offsets, sizes, np.zeros(2, np.uint8), np.zeros(1, np.uint64))
    with pytest.raises(NativeError, match="leaves the region of 27 bytes"):
        table.copy_into_each(files, offsets + np.uint64(1), sizes, [bytearray(3)])
    with pytest.raises(NativeError, match="of region 1, there are 1"):
        table.copy_into_each(files + np.uint32(1), offsets, sizes, [bytearray(3)])
    with pytest.raises(NativeError, match="checksums has 2 entries for 1 spans"):
        table.copy_into_each(files, offsets, sizes, [bytearray(3)], np.zeros(2, np.uint32))


def test_offsets() -> None:
    table = np.array([36, 40, 40, 50], "<i8").tobytes()
    assert check_ffr_offsets(table, 36, 50) == -1
    assert check_ffr_offsets(table, 37, 50) == 0
    assert check_ffr_offsets(table, 36, 49) == 3
    assert check_ffr_offsets(memoryview(b"x" + table)[1:], 36, 50) == -1
    with pytest.raises(NativeError, match="no whole offsets"):
        check_ffr_offsets(table[:-1], 0, 50)


def test_checksums_of_buffers() -> None:
    buffers = [b"", b"abc", bytearray(10_000), memoryview(b"xyz")]
    assert crc32_buffers(buffers).tolist() == [zlib.crc32(b) for b in buffers]


def test_a_header_is_checked_in_one_pass() -> None:
    header = bytes(4) + struct.pack("<q3I3q", 3, 7, 8, 9, 48, 50, 60)
    assert check_ffr_header(header, 60) == (crc32(header[4:]), -1)
    assert check_ffr_header(header, 59) == (crc32(header[4:]), 2)
    with pytest.raises(NativeError, match="no header has 47 bytes"):
        check_ffr_header(header[:-1], 60)


def test_every_offset_of_a_header_is_looked_at() -> None:
    for n in (1, 31, 32, 33, 47, 2049):
        offsets = 12 + 12 * n + 3 * np.arange(n, dtype="<i8")
        head = bytes(4) + struct.pack("<q", n) + bytes(4 * n)
        assert check_ffr_header(head + offsets.tobytes(), 2**62) == (crc32((head + offsets.tobytes())[4:]), -1)
        for bad in range(0, n, 1 if n < 100 else 41):
            damaged = offsets.copy()
            damaged[bad] = 0  # before all others
            header = head + damaged.tobytes()
            assert check_ffr_header(header, 2**62) == (crc32(header[4:]), bad)
