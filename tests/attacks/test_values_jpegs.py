"""JPEGs that are odd or damaged have one verdict, and the same pixels, whichever way they are decoded."""

from __future__ import annotations

import warnings
from contextlib import nullcontext
from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.attacks.jpeg_mutations import DHT, KINDS, SOF, SOS, Segment, complete_code, mutant, put_together, take_apart
from tests.attacks.jpeg_ways import LEVELS, decode_whole, disagreement, make_index
from tests.attacks.rare_jpegs import RARE

import headrace
from headrace import _native, ops
from headrace.errors import HeadraceError

if TYPE_CHECKING:
    from pathlib import Path

WORDS = r"JPEG of (8|12|16) bits a channel|lossless or hierarchical JPEG"


def agreed(data: bytes) -> bool:
    """All ways decode it, or none."""
    assert disagreement(data, np.random.default_rng(0)) is None
    return decode_whole(data).pixels is not None


@pytest.mark.parametrize("kind", KINDS)
def test_kinds(kind: str) -> None:
    assert put_together(take_apart(KINDS[kind])) == KINDS[kind]
    assert agreed(KINDS[kind]) == (not kind.startswith("CMYK"))


@pytest.mark.parametrize("kind", [kind for kind in KINDS if "restarts" in kind])
@pytest.mark.parametrize("count", [1, 2, 7])
def test_fill_bytes_before_restart_markers(kind: str, count: int) -> None:
    segments = take_apart(KINDS[kind])
    for segment in segments:
        segment.restarts = [b"\xff" * count + mark for mark in segment.restarts]
    data = put_together(segments)
    assert agreed(data)
    assert bool(make_index(data)) == bool(make_index(KINDS[kind]))


def test_the_loader_uses_the_index_of_a_jpeg_with_fill_bytes(tmp_path: Path) -> None:
    segments = take_apart(KINDS["restarts"])
    segments[-1].restarts = [b"\xff\xff\xff" + mark for mark in segments[-1].restarts]
    path = tmp_path / "x.beton"
    headrace.write(path, [(put_together(segments),)] * 4, fields={"image": headrace.Image()})
    loader = headrace.Loader(path, 4, pipelines={"image": [ops.RandomResizedCrop(16)]})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        list(loader)
    assert loader.stats.jpegs["indices_rejected"] == 0
    assert loader.stats.jpegs["window"] == 4


@pytest.mark.parametrize("kind", ["grey", "4:2:0", "restarts, rows", "optimised", "progressive"])
def test_a_huffman_code_of_all_ones(kind: str) -> None:
    for seed in range(6):
        segments = take_apart(KINDS[kind])
        tables = [segment for segment in segments if segment.marker == DHT]
        complete_code(tables[seed % len(tables)], np.random.default_rng(seed))
        agreed(put_together(segments))
    for segment in segments:
        if segment.marker == DHT:
            complete_code(segment, np.random.default_rng(0))
    data = put_together(segments)
    if kind != "progressive":
        assert not agreed(data)
        assert not make_index(data)


@pytest.mark.parametrize("marker", [0x02, 0xBF, 0xC8, 0xCC, 0xDC, 0xDE, 0xDF, 0xE5, 0xF0, 0xFD, 0xFE])
@pytest.mark.parametrize("kind", ["grey", "restarts", "progressive"])
def test_unusual_segments(kind: str, marker: int) -> None:
    segments = take_apart(KINDS[kind])
    segments.insert(1, Segment(marker, bytearray(b"abc")))
    assert agreed(put_together(segments)) == (marker in (0xDC, 0xE5, 0xFE))


@pytest.mark.parametrize("frame", [0xC3, 0xC5, 0xC6, 0xC7, 0xCB, 0xCD])
def test_other_kinds_of_frames(frame: int) -> None:
    segments = take_apart(KINDS["4:2:0"])
    next(segment for segment in segments if segment.marker in SOF).marker = frame
    assert not agreed(put_together(segments))


@pytest.mark.parametrize("bits", [0, 2, 7, 9, 12, 16])
@pytest.mark.parametrize("kind", ["4:2:0", "grey", "progressive", "arithmetic"])
def test_other_numbers_of_bits(kind: str, bits: int) -> None:
    segments = take_apart(KINDS[kind])
    next(segment for segment in segments if segment.marker in SOF).body[0] = bits
    assert not agreed(put_together(segments))


@pytest.mark.parametrize("kind", RARE)
def test_rare_kinds(kind: str, tmp_path: Path) -> None:
    """One verdict and a clear message, whichever way: decoded, packed, read by Pillow, checked, loaded."""
    data = RARE[kind]
    is_usual = kind.startswith("8 bits")
    assert agreed(data) == is_usual
    assert bool(make_index(data)) == (kind == "8 bits")
    source = tmp_path / "in" / "a"
    source.mkdir(parents=True)
    (source / "x.jpg").write_bytes(data)
    for field in (headrace.Image(), headrace.Image(mode="raw"), headrace.Image(max_side=8)):
        with nullcontext() if is_usual else pytest.raises(HeadraceError, match=WORDS):
            headrace.write(tmp_path / "x.beton", [(data,)], fields={"image": field}, force=True)
        assert (tmp_path / "x.beton").exists() == is_usual
    headrace.pack(tmp_path / "x.ffr", tmp_path / "in", progress=False)
    headrace.pack(tmp_path / "x.barecat", tmp_path / "in", progress=False)
    for path in ("x.barecat", "x.ffr", "in"):
        options = {"decode": "image"} if path == "x.ffr" else {}
        with headrace.open(tmp_path / path, **options) as dataset:
            name = next(iter(dataset.schema))
            for call in (lambda: dataset[0], lambda: dataset.read_values(np.zeros(1, np.int64), name)):  # noqa: B023
                with nullcontext() if is_usual else pytest.raises(HeadraceError, match=WORDS):
                    call()
            assert dataset.verify(decode=True).ok == is_usual
            if path != "in":
                load(dataset, name, is_usual)


def load(dataset: headrace.Dataset, name: str, is_usual: bool) -> None:
    for jpeg in ("window", "slice", "libjpeg"):
        loader = headrace.Loader(dataset, 1, pipelines={name: [ops.CenterCrop(8)]}, jpeg=jpeg)
        with nullcontext() if is_usual else pytest.raises(HeadraceError, match=WORDS):
            assert len(list(loader)) == 1


def test_scans_that_are_missing_or_twice() -> None:
    for kind in KINDS:
        scans = [i for i, segment in enumerate(take_apart(KINDS[kind])) if segment.marker == SOS]
        for i in scans:
            segments = take_apart(KINDS[kind])
            agreed(put_together([*segments[:i], *segments[i + 1 :]]))
            agreed(put_together([*segments[: i + 1], *segments[i:]]))
            agreed(put_together(segments[: i + 1], b""))


def test_changed_jpegs() -> None:
    try_mutants(range(400))


@pytest.mark.slow
def test_many_changed_jpegs() -> None:
    try_mutants(range(1_000_000, 1_006_000))


def try_mutants(seeds: range) -> None:
    decoded = indexed = 0
    for seed in seeds:
        name, data = mutant(seed)
        assert disagreement(data, np.random.default_rng(seed)) is None, name
        decoded += decode_whole(data).pixels is not None
        indexed += bool(make_index(data))
    assert decoded > len(seeds) / 5  # else nothing was compared
    assert indexed > len(seeds) / 10
    assert _native.simd_level() == LEVELS[-1]
