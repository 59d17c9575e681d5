from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest

from headrace._native import crc32c
from headrace.annex import Annex, write_annex
from headrace.errors import AnnexError
from headrace.storage import LocalFile

FACTS = {"num_samples": 3, "dataset_size": 1000, "dataset_fingerprint": 0xABCDEF}


def build(sections: dict[str, Any], before: bytes = b"", **facts: int) -> np.ndarray:
    told = FACTS | facts
    out = bytearray(before)

    def write(buffers: Any) -> None:
        for buffer in buffers:
            out.extend(memoryview(buffer).cast("B"))

    size = write_annex(
        write,
        sections,
        num_samples=told["num_samples"],
        dataset_size=lambda size: told["dataset_size"],
        dataset_fingerprint=lambda size: told["dataset_fingerprint"],
    )
    assert size == len(out) - len(before)
    return np.frombuffer(bytes(out), np.uint8)


def find(data: np.ndarray, first: int = 0, **facts: int) -> Annex | None:
    return Annex.find(LocalFile("x.annex", mapped=data), first=first, **(FACTS | facts))


def resealed(data: np.ndarray, offset: int, fmt: str, value: int) -> np.ndarray:
    """Change a number in the trailer and make its checksum right again."""
    raw = bytearray(data)
    struct.pack_into(fmt, raw, len(raw) - 64 + offset, value)
    struct.pack_into("<I", raw, len(raw) - 4, crc32c(raw[-64:-4]))
    return np.frombuffer(bytes(raw), np.uint8)


SECTIONS = {"one": [b"abc", b"", b"def"], "empty": [], "numbers": [np.arange(5, dtype="<u8").view(np.uint8)]}


def test_round_trip() -> None:
    annex = find(build(SECTIONS))
    assert annex is not None
    assert annex.names() == ["one", "empty", "numbers"]
    assert bytes(annex.section("one")) == b"abcdef"
    assert bytes(annex.section("empty")) == b""
    assert annex.section("numbers").view("<u8").tolist() == [0, 1, 2, 3, 4]
    assert annex.section("unknown") is None


def test_sections_are_aligned_to_8_from_the_first_byte() -> None:
    data = build({"a": [b"x"], "b": [b"yz"]})
    directory = data.tobytes()[-64 - 80 : -64]
    assert [struct.unpack_from("<16sQQ", directory, 40 * k)[1] for k in range(2)] == [0, 8]


def test_embedded_behind_other_bytes() -> None:
    before = b"pages" * 100
    annex = find(build(SECTIONS, before), first=len(before))
    assert annex is not None
    assert annex.size_bytes + len(before) == len(build(SECTIONS, before))


@pytest.mark.parametrize("data", [b"", b"x" * 63, b"x" * 64, b"x" * 500])
def test_no_annex_is_none(data: bytes) -> None:
    assert find(np.frombuffer(data, np.uint8)) is None


def test_an_annex_that_would_begin_too_early_is_none_or_an_error() -> None:
    data = build(SECTIONS)
    assert find(data, first=len(data) - 63) is None
    with pytest.raises(AnnexError, match="claims"):
        find(data, first=len(data) - 64)


def test_every_bit_of_directory_and_trailer_counts() -> None:
    data = build(SECTIONS)
    for at in range(len(data) - 64 - 120, len(data)):
        for bit in range(8):
            broken = data.copy()
            broken[at] ^= 1 << bit
            if at < len(data) - 64 or at >= len(data) - 56:
                with pytest.raises(AnnexError):
                    find(broken)
            else:
                assert find(broken) is None, "without its magic number there is no annex"


def test_every_bit_of_every_section_counts() -> None:
    data = build(SECTIONS)
    for name, start, size in (("one", 0, 6), ("numbers", 8, 40)):
        for at in range(start, start + size):
            broken = data.copy()
            broken[at] ^= 0x10
            annex = find(broken)
            assert annex is not None
            with pytest.raises(AnnexError, match=rf"x\.annex: annex section '{name}' does not match its checksum"):
                annex.section(name)


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ({"num_samples": 4}, "describes 3 samples, the dataset has 4"),
        ({"dataset_size": 1001}, "expects 1000 bytes .* found 1001 bytes"),
        ({"dataset_fingerprint": 1}, "0x00abcdef, .* 0x00000001"),
    ],
)
def test_the_annex_of_another_dataset_is_refused(facts: dict[str, int], message: str) -> None:
    with pytest.raises(AnnexError, match=message) as caught:
        find(build(SECTIONS), **facts)
    assert "headrace index" in str(caught.value)


@pytest.mark.parametrize(
    ("offset", "fmt", "value", "message"),
    [
        (8, "<H", 2, "version 2, and this headrace reads version 1"),
        (12, "<I", 2**32 - 1, "claims 4,294,967,295 sections"),
        (12, "<I", 1000, "claims .* bytes"),
        (12, "<I", 4, "directory does not match"),
        (16, "<Q", 2**64 - 1, "claims 18446744073709551615 bytes"),
        (16, "<Q", 10, "claims 10 bytes"),
    ],
)
def test_hostile_trailers(offset: int, fmt: str, value: int, message: str) -> None:
    with pytest.raises(AnnexError, match=message):
        find(resealed(build(SECTIONS), offset, fmt, value))


@pytest.mark.parametrize(("start", "size"), [(2**64 - 8, 16), (0, 2**64 - 1), (10**6, 0), (0, 10**6)])
def test_hostile_directories(start: int, size: int) -> None:
    raw = bytearray(build({"one": [b"abc"]}))
    struct.pack_into("<QQ", raw, len(raw) - 64 - 40 + 16, start, size)
    data = resealed(np.frombuffer(bytes(raw), np.uint8), 44, "<I", crc32c(raw[-64 - 40 : -64]))
    with pytest.raises(AnnexError, match="section 'one' lies outside the annex"):
        find(data)
