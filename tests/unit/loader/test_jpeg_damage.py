"""Damaged JPEGs and damaged indices of JPEGs: found, counted and told of, and never in the way of the pixels."""

from __future__ import annotations

import re
import resource
import threading
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.helpers import Surgeon
from tests.unit.loader.jpegs import (
    CROPS,
    LEVELS,
    NEEDS_DECODER,
    WINDOWED,
    Files,
    TileIndex,
    counts,
    loader,
    made,
    write,
)
from tests.unit.loader.tools import contents, damage

import headrace as hr
from headrace import _native, ops
from headrace.codecs.jpeg import encode
from headrace.errors import AnnexError, CorruptSampleError

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return Files.make(tmp_path_factory.mktemp("good"), WINDOWED)


def tiles_of(files: Files) -> TileIndex:
    return TileIndex(files.indexed, len(WINDOWED))


def load_with_warnings(path: Path, **options: Any) -> tuple[list[Any], dict[str, int], list[str]]:
    """Two epochs: what came out, what was counted, and what was warned of."""
    found = loader(path, CROPS["random"], **options)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        first = contents(found)
        list(found)
    assert all(w.category is RuntimeWarning for w in caught)
    return first, counts(found), [str(w.message) for w in caught]


def assert_rejected(files: Files, path: Path, rejected: int, **options: Any) -> None:
    first, counted, told = load_with_warnings(path, **options)
    assert first == contents(loader(files.raw, CROPS["random"], batch_size=options.get("batch_size", 8)))
    assert counted.pop("indices_rejected", 0) == 2 * rejected
    instead = "window_without_index" if "avx512" in LEVELS else "libjpeg_by_options"
    assert counted.pop(instead, 0) == 2 * rejected
    assert counted.pop("window", 0) == 2 * (len(WINDOWED) - rejected)
    assert counted == {}
    assert len(told) == (rejected > 0)
    assert all(str(path) in text and text.endswith("headrace index --embed") for text in told)


def test_indices_that_are_right_are_not_rejected(good: Files) -> None:
    assert_rejected(good, good.indexed, 0)


@pytest.mark.parametrize("place", [0, 1, 2, 3, 4, 9, 12, 15, 17, 18, 19, 21, 24, 27, 28, -5, -4, -1])
def test_a_flipped_bit_of_an_index(good: Files, tmp_path: Path, place: int) -> None:
    tiles = tiles_of(good)
    first, end = tiles.offsets[3:5].tolist()
    tiles.surgeon.flip(tiles.first + (first if place >= 0 else end) + place, 0x10)
    assert_rejected(good, tiles.save(tmp_path / "x.beton"), 1)


def test_an_index_of_a_version_to_come(good: Files, tmp_path: Path) -> None:
    tiles = tiles_of(good)
    entry = bytearray(tiles.entry(3))
    entry[3] = 2
    entry[-4:] = _native.crc32c(entry[:-4]).to_bytes(4, "little")
    tiles.surgeon.put(tiles.first + int(tiles.offsets[3]), bytes(entry))
    path = tiles.save(tmp_path / "x.beton")
    assert_rejected(good, path, 1)
    told = load_with_warnings(path)[2]
    assert "sample 3, field 'image': the index of the JPEG is not used (tile index: version 2 is not known" in told[0]


def test_every_index_damaged(good: Files, tmp_path: Path) -> None:
    tiles = tiles_of(good)
    for first, end in zip(tiles.offsets[:-1].tolist(), tiles.offsets[1:].tolist(), strict=True):
        tiles.surgeon.flip(tiles.first + (first + end) // 2)
    path = tiles.save(tmp_path / "x.beton")
    assert_rejected(good, path, len(WINDOWED))
    assert_rejected(good, path, len(WINDOWED), workers=7, batch_size=2)
    assert_rejected(good, path, len(WINDOWED), verify=False)
    assert load_with_warnings(path, jpeg="libjpeg")[1:] == ({"libjpeg_by_options": 2 * len(WINDOWED)}, [])


@pytest.mark.parametrize("verify", [True, False])
def test_indices_of_other_samples(good: Files, tmp_path: Path, verify: bool) -> None:
    tiles = tiles_of(good)
    entries = [tiles.entry(i) for i in range(tiles.count)]
    entries[1], entries[2], entries[5] = entries[2], entries[5], entries[1]
    tiles.set_entries(entries)
    assert_rejected(good, tiles.save(tmp_path / "x.beton"), 3, verify=verify)


def test_an_index_of_the_same_picture_in_another_quality(good: Files, tmp_path: Path) -> None:
    one, other = made(30, quality=90), made(30, quality=91)
    path = write(tmp_path / "x.beton", [one, other])
    tiles = TileIndex(path, 2)
    tiles.set_entries([tiles.entry(1), tiles.entry(0)])
    _, counted, told = load_with_warnings(tiles.save(tmp_path / "y.beton"))
    assert counted["indices_rejected"] == 4
    assert len(told) == 1


@pytest.mark.parametrize("missing", [1, 4, 5, 20])
def test_an_index_cut_short(good: Files, tmp_path: Path, missing: int) -> None:
    tiles = tiles_of(good)
    offsets = tiles.offsets
    offsets[4] -= np.uint64(missing)  # what is missing in one stands before the next
    tiles.set_offsets(offsets)
    assert_rejected(good, tiles.save(tmp_path / "x.beton"), 2)


def test_indices_that_are_empty_are_none(good: Files, tmp_path: Path) -> None:
    tiles = tiles_of(good)
    tiles.set_offsets(np.zeros(tiles.count + 1))
    first, counted, told = load_with_warnings(tiles.save(tmp_path / "x.beton"))
    assert first == contents(loader(good.raw, CROPS["random"]))
    assert counted.get("indices_rejected", 0) == counted.get("window", 0) == 0
    assert told == []


HOSTILE = {
    "descending": lambda offsets: offsets[::-1],
    "beyond the end": lambda offsets: offsets + np.uint64(1 << 40),
    "largest": lambda offsets: np.full_like(offsets, 2**64 - 1),
    "overflowing": lambda offsets: offsets + (np.arange(len(offsets), dtype=np.uint64) % 2) * np.uint64(2**64 - 9),
    "all of it for each": lambda offsets: np.where(np.arange(len(offsets)) % 2, offsets[-1], np.uint64(0)),
    "a little off": lambda offsets: np.maximum(offsets, np.uint64(1)) - np.uint64(1),
    "last one byte too far": lambda offsets: np.append(offsets[:-1], offsets[-1] + np.uint64(1 << 20)),
    "random": lambda offsets: np.random.default_rng(0).integers(0, 2**64, len(offsets), dtype=np.uint64),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_offsets(good: Files, tmp_path: Path, name: str) -> None:
    tiles = tiles_of(good)
    tiles.set_offsets(HOSTILE[name](tiles.offsets))
    path = tiles.save(tmp_path / "x.beton")
    first, _, told = load_with_warnings(path)
    assert first == contents(loader(good.raw, CROPS["random"]))
    assert len(told) <= 1
    with hr.open(path) as dataset:
        assert dataset.tile_index is not None
        assert 0 <= dataset.tile_index.count <= len(WINDOWED)


def test_a_section_for_another_number_of_fields_is_refused(good: Files, tmp_path: Path) -> None:
    tiles = tiles_of(good)
    tiles.surgeon.put(tiles.start, b"\x02")
    with pytest.raises(AnnexError, match="jpeg_tiles"):
        list(loader(tiles.save(tmp_path / "x.beton"), CROPS["random"]))


@NEEDS_DECODER
def test_the_warning_comes_once_for_many_threads(good: Files, tmp_path: Path) -> None:
    tiles = tiles_of(good)
    tiles.surgeon.flip(tiles.first + 40)
    path = tiles.save(tmp_path / "x.beton")
    found = loader(path, CROPS["random"], batch_size=1)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        threads = [
            threading.Thread(target=lambda k=k: [found[(k + step) % len(found)] for step in range(len(found))])
            for k in range(6)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(caught) == 1
    assert counts(found)["indices_rejected"] == 6


def test_a_warning_that_is_an_error_ends_the_loop(good: Files, tmp_path: Path) -> None:
    tiles = tiles_of(good)
    tiles.surgeon.flip(tiles.first + 40)
    with pytest.raises(RuntimeWarning, match="the index of the JPEG is not used"):
        list(loader(tiles.save(tmp_path / "x.beton"), CROPS["random"]))


# -- JPEGs that are damaged ------------------------------------------------------------------------------------


def test_a_damaged_jpeg_is_found_by_its_checksum(good: Files, tmp_path: Path) -> None:
    path = damage(good.indexed, tmp_path / "x.beton", images=[2])
    with pytest.raises(CorruptSampleError, match="checksum"):
        list(loader(path, CROPS["random"]))
    found = loader(path, CROPS["random"], on_error="skip")
    list(found)
    assert [error.sample for error in found.errors] == [2]


@NEEDS_DECODER
def test_a_damaged_jpeg_without_checksums_is_left_to_libjpeg(good: Files, tmp_path: Path) -> None:
    surgeon = Surgeon(good.indexed)
    start, size = surgeon.table[2][1:].tolist()
    surgeon.put(start + size - 400, b"\xff\xd9")  # the picture ends in the middle
    path = surgeon.save(tmp_path / "x.beton")
    for jpeg in ("window", "libjpeg"):
        found = loader(path, CROPS["whole"], verify=False, on_error="skip", jpeg=jpeg)
        with warnings.catch_warnings(record=True):
            warnings.simplefilter("always")
            list(found)
        assert [error.sample for error in found.errors] == [2]


@NEEDS_DECODER
def test_bits_that_are_wrong_give_what_libjpeg_gives(good: Files, tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    surgeon = Surgeon(good.plain)
    for start, size in surgeon.table[:, 1:].tolist():
        surgeon.flip(start + size - int(rng.integers(20, min(300, size // 2))), 1 << int(rng.integers(8)))
    path = surgeon.save(tmp_path / "x.beton")
    found, expected = (
        loader(path, CROPS["random"], verify=False, on_error="skip", jpeg=jpeg) for jpeg in ("window", "libjpeg")
    )
    assert contents(found) == contents(expected)
    assert [error.sample for error in found.errors] == [error.sample for error in expected.errors]


@pytest.mark.skipif("avx512" not in LEVELS, reason="only a search through the codes finds such damage")
def test_damage_that_libjpeg_overlooks_is_told_of_once(tmp_path: Path) -> None:
    file = WINDOWED["even"]
    places = range(len(file) - 1200, len(file) - 500)  # among the codes
    files = [bytes([*file[:place], file[place] ^ 0x40, *file[place + 1 :]]) for place in places]
    path = write(tmp_path / "x.beton", files, jpeg_index=False)
    found = loader(path, CROPS["whole"], on_error="skip")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        list(found)
    assert counts(found)["libjpeg_by_damage"] > len(found.errors)
    (text,) = (str(w.message) for w in caught)
    assert re.search(r"x.beton, sample \d+, field 'image': the JPEG is damaged \(.+\), but libjpeg-turbo decoded", text)


@pytest.mark.parametrize("jpeg_decoder", ["window", "slice", "libjpeg"])
def test_a_few_bytes_that_claim_billions_of_pixels_take_no_memory(tmp_path: Path, jpeg_decoder: Any) -> None:
    small = encode(np.zeros((16, 16, 3), np.uint8))
    sides = small.index(b"\xff\xc0") + 5
    gigantic = small[:sides] + (60_000).to_bytes(2, "big") * 2 + small[sides + 4 :]
    for name, data in (("a.jpg", small), ("b.jpg", gigantic)):
        (tmp_path / name).write_bytes(data)
    pipelines = {"image": [ops.RandomResizedCrop(32)]}
    before = peak_bytes()
    with pytest.raises(CorruptSampleError, match="60000x60000 pixels, and at most 268435456 are decoded"):
        list(hr.Loader(tmp_path, 2, jpeg=jpeg_decoder, pipelines=pipelines))
    assert peak_bytes() - before < 64 << 20


def peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
