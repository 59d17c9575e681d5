"""Zstandard that ends too early is an error."""

from __future__ import annotations

import io
import os

import pytest

from headrace.codecs.zstd import open_zst, zst_pieces

zstandard = pytest.importorskip("zstandard")
DATA = os.urandom(300_000) + bytes(300_000)


def test_all_frames_are_read() -> None:
    packed = zstandard.compress(DATA) + zstandard.compress(b"") + zstandard.compress(b"more")
    assert b"".join(zst_pieces(zstandard, io.BytesIO(packed).read)) == DATA + b"more"
    with open_zst(zstandard, io.BytesIO(packed)) as file:
        assert file.read(10) == DATA[:10]
        assert file.read() == DATA[10:] + b"more"
    assert open_zst(zstandard, io.BytesIO(b"")).read() == b""


def test_what_is_cut_or_something_else() -> None:
    packed = zstandard.compress(DATA)
    for length in (len(packed) - 1, 20):
        with pytest.raises(EOFError, match="end too early"):
            open_zst(zstandard, io.BytesIO(packed[:length])).read()
    with pytest.raises(OSError):  # noqa: PT011  # the words are those of the library
        open_zst(zstandard, io.BytesIO(b"this is not Zstandard")).read()
