from __future__ import annotations

import zlib

import numpy as np
import pytest

from headrace import _native


@pytest.fixture(params=["scalar", "sse42", "avx512"])
def _level(request: pytest.FixtureRequest):
    before = _native.simd_level()
    try:
        _native.set_simd_level(request.param)
    except _native.NativeError:
        pytest.skip(f"this CPU has no {request.param}")
    yield
    _native.set_simd_level(before)


@pytest.mark.usefixtures("_level")
def test_crc32_is_that_of_zlib() -> None:
    data = np.random.default_rng(0).bytes(5000)
    for size in (*range(600), 1000, 4095, 4096, 4097, 5000):
        assert _native.crc32(data[:size]) == zlib.crc32(data[:size])
        start = zlib.crc32(data[size:])
        assert _native.crc32(data[:size], start) == zlib.crc32(data[:size], start)


def test_crc32_of_spans() -> None:
    base = np.random.default_rng(1).integers(0, 256, 1000, np.uint8)
    offsets, sizes = np.array([0, 10, 1000], np.uint64), np.array([1000, 33, 0], np.uint64)
    expected = [zlib.crc32(base), zlib.crc32(base[10:43]), 0]
    assert _native.crc32_spans(base, offsets, sizes).tolist() == expected
    with pytest.raises(_native.NativeError):
        _native.crc32_spans(base, offsets, sizes + np.uint64(1))
