"""Crops of JPEGs: the same pixels by an index, without one and by libjpeg-turbo, and what is counted on the way.

The reference is a file of raw pixels that Pillow decoded: crops, flips and filters are the same, and no JPEG is left.
"""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import threading
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from PIL import Image as Pillow
from tests.helpers import Surgeon, image_file, picture, sections_of
from tests.unit.loader.tools import contents, damage

import penstock as ps
from penstock import _native, ops
from penstock.errors import AnnexError, CorruptSampleError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LEVELS = ["scalar", "sse42", "avx2", "avx512"]
LEVELS = LEVELS[: LEVELS.index(_native.simd_level()) + 1]
needs_decoder = pytest.mark.skipif("avx2" not in LEVELS, reason="without vector code the window decoder is not used")
NCHW = ops.ToLayout("NCHW")


def with_sampling(data: bytes, sampling: int, width: int, height: int) -> bytes:
    """Let the luma blocks of an MCU stand otherwise; there must be as many MCUs as before.

    Pillow writes neither 4:4:0 nor 4:1:1, but their codes come in the order of 4:2:2 and 4:2:0.
    """
    changed = bytearray(data)
    frame = changed.index(b"\xff\xc0")
    changed[frame + 5 : frame + 9] = height.to_bytes(2, "big") + width.to_bytes(2, "big")
    changed[frame + 11] = sampling
    return bytes(changed)


def noise(seed: int, height: int, width: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


def made(seed: int, height: int = 93, width: int = 131, **options: Any) -> bytes:
    return image_file(picture(seed, height, width), "JPEG", **options)


WINDOWED = {
    "4:4:4": made(1, subsampling=0),
    "4:2:2": made(2, subsampling=1),
    "4:2:0": made(3, subsampling=2),
    "4:4:0": with_sampling(made(4, 61, 180, subsampling=1), 0x12, 91, 125),
    "4:4:0 restarts": with_sampling(made(4, 61, 180, subsampling=1, restart_marker_blocks=5), 0x12, 96, 128),
    "grey": image_file(picture(5, 77, 99)[:, :, 0], "JPEG"),
    "RGB": made(6, keep_rgb=True),
    "restart every MCU": made(7, restart_marker_blocks=1, subsampling=1),
    "restart every 3": made(8, restart_marker_blocks=3),
    "restart every row": made(9, restart_marker_rows=1, subsampling=0),
    "optimised": made(10, optimize=True, quality=95),
    "optimised grey": image_file(picture(11, 64, 64)[:, :, 0], "JPEG", optimize=True, restart_marker_blocks=2),
    "longer": made(12, 70, 400, quality=60),
    "odd": made(13, 33, 49, quality=97, subsampling=1),
    "even": made(14, 96, 128, optimize=True),
} | {
    f"quality {q}": image_file(noise(q, 60, 80), "JPEG", quality=q, subsampling=q % 3) for q in (1, 2, 10, 50, 99, 100)
}
OTHER_KINDS = {
    "progressive": made(20, progressive=True),
    "progressive 4:4:4": made(21, 40, 57, progressive=True, subsampling=0),
    "4:1:1": with_sampling(made(22, 61, 180), 0x41, 380, 32),
}
SIZES = [(1, 1), (1, 40), (40, 1), (2, 2), (5, 3), (9, 7), (17, 16), (8, 33), (40, 5)]
SMALL = {f"{w}x{h} {s}": made(w, h, w, subsampling=s) for h, w in SIZES for s in (0, 1, 2)}
CROPS = {
    "random": [ops.RandomResizedCrop(24, reduced=False), ops.RandomHorizontalFlip(), NCHW],
    "random, small parts": [ops.RandomResizedCrop(16, scale=(0.001, 0.03), ratio=(0.2, 5), interpolation="bilinear")],
    "flip first": [ops.RandomHorizontalFlip(), ops.RandomResizedCrop((9, 31), interpolation="bicubic", reduced=False)],
    "center": [ops.CenterCrop(24, ratio=0.8), ops.Normalize([99, 88, 77], [9, 8, 7], dtype="float16"), NCHW],
    "whole": [ops.Resize((17, 40), interpolation="lanczos")],
}
UNSCALED = {"unscaled": [ops.RandomCrop(30)], "unscaled, padded": [ops.RandomCrop((28, 31), padding=9, fill=7)]}


def pixels_of(data: bytes) -> np.ndarray:
    return np.asarray(Pillow.open(io.BytesIO(data)).convert("RGB"))


def write(path: Path, files: Any, *, mode: Any = "jpg", **options: Any) -> Path:
    samples = [(file, i) for i, file in enumerate(files)]
    fields = {"image": ps.Image(mode=mode), "label": ps.Int()}
    ps.write(path, samples, fields=fields, page_size=1 << 21, workers=1, **options)
    return path


@dataclass(frozen=True)
class Files:
    """The same pictures as JPEGs with indices, as JPEGs without, and as pixels."""

    indexed: Path
    plain: Path
    raw: Path

    @classmethod
    def make(cls, folder: Path, jpegs: dict[str, bytes]) -> Files:
        return cls(
            write(folder / "indexed.beton", jpegs.values()),
            write(folder / "plain.beton", jpegs.values(), jpeg_index=False),
            write(folder / "raw.beton", [pixels_of(data) for data in jpegs.values()], mode="raw"),
        )


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return Files.make(tmp_path_factory.mktemp("large"), WINDOWED | OTHER_KINDS)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return Files.make(tmp_path_factory.mktemp("small"), SMALL)


@pytest.fixture(params=LEVELS)
def level(request: pytest.FixtureRequest) -> Iterator[str]:
    before = _native.simd_level()
    _native.set_simd_level(request.param)
    yield request.param
    _native.set_simd_level(before)


def loader(path: Path, pipeline: list[Any], **options: Any) -> ps.Loader:
    settings: dict[str, Any] = {"order": "random", "seed": 3, "drop_last": False, "workers": 2} | options
    return ps.Loader(path, settings.pop("batch_size", 8), pipelines={"image": pipeline}, **settings)


def counts(loader: ps.Loader) -> dict[str, int]:
    return {name: count for name, count in loader.stats.jpegs.items() if count}


def assert_the_same(files: Files, pipeline: list[Any], **options: Any) -> None:
    expected = contents(loader(files.raw, pipeline, **options))
    assert contents(loader(files.indexed, pipeline, **options)) == expected
    assert contents(loader(files.plain, pipeline, **options)) == expected
    assert contents(loader(files.indexed, pipeline, jpeg="libjpeg", **options)) == expected


# -- the same pixels -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("crop", [*CROPS, *UNSCALED])
def test_pictures_of_all_kinds(large: Files, crop: str, level: str) -> None:
    assert_the_same(large, (CROPS | UNSCALED)[crop])


@pytest.mark.parametrize("crop", CROPS)
def test_pictures_of_a_few_pixels(small: Files, crop: str, level: str) -> None:
    assert_the_same(small, CROPS[crop])


@pytest.mark.parametrize("workers", [1, 2, 7])
def test_any_number_of_workers(large: Files, workers: int) -> None:
    expected = contents(loader(large.raw, CROPS["random"], workers=1))
    for path, options in [(large.indexed, {}), (large.plain, {}), (large.indexed, {"jpeg": "libjpeg"})]:
        found = loader(path, CROPS["random"], workers=workers, batch_size=5, batches_ahead=workers, **options)
        pictures = np.concatenate([batch.image for batch in found])
        assert pictures.tobytes() == b"".join(values[0][2] for values in expected)


def test_parts_that_are_decoded_at_a_fraction_of_their_size(large: Files) -> None:
    pipeline = [ops.RandomResizedCrop(16, scale=(0.5, 1), reduced=True)]
    found = [
        loader(large.indexed, pipeline),
        loader(large.plain, pipeline),
        loader(large.indexed, pipeline, jpeg="libjpeg"),
    ]
    one, two, three = (contents(each) for each in found)
    assert one == two == three
    assert counts(found[0])["libjpeg_by_options"] > 0


def test_many_epochs(large: Files) -> None:
    crop = [ops.RandomResizedCrop(8, scale=(0.01, 1), interpolation="nearest", reduced=False)]
    raw, indexed, plain = (loader(path, crop) for path in (large.raw, large.indexed, large.plain))
    for _ in range(20):
        expected = contents(raw)
        assert contents(indexed) == expected
        assert contents(plain) == expected


@pytest.mark.parametrize("verify", [True, False])
@pytest.mark.parametrize("cache", ["os", "8MB"])
def test_read_ahead_and_without_checksums(large: Files, cache: str, verify: bool) -> None:
    options: dict[str, Any] = {"order": "quasi_random", "cache": cache}
    expected = contents(loader(large.raw, CROPS["random"], **options))
    found = loader(large.indexed, CROPS["random"], verify=verify, **options)
    assert contents(found) == expected
    assert found.stats.jpegs["indices_rejected"] == 0


def load_windows(path: Path, sample: int, windows: list[tuple[int, int, int, int]]) -> list[np.ndarray]:
    """Windows (top, left, height, width) of one picture, not scaled."""
    spans = ps.open(path).image_spans(np.array([sample]), "image")
    where = (spans.base, spans.offsets, spans.sizes, spans.modes, spans.widths, spans.heights)
    threads = _native.ImageLoader(1)
    found = []
    for window in windows:
        out = np.empty((1, *window[2:], 3), np.uint8)
        failures = threads.load(
            *where,
            np.array([window], np.int32),
            np.zeros(1, np.uint8),
            out,
            channels_first=False,
            interpolation="nearest",
            checksums=spans.checksums,
            tiles=spans.tiles,
        )
        assert failures == []
        found.append(out[0])
    return found


@pytest.mark.parametrize("name", ["4:4:4", "4:2:2", "4:2:0", "4:4:0", "restart every 3", "grey"])
def test_every_corner(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / "x.beton", [WINDOWED[name]])
    whole = pixels_of(WINDOWED[name])
    corners = [(y, x) for y in range(0, 64, 7) for x in range(0, 80, 11)] + [
        (y, x) for y in (15, 16) for x in range(40)
    ]
    windows = [(y, x, 6, 5) for y, x in corners]
    for (y, x, h, w), found in zip(windows, load_windows(path, 0, windows), strict=True):
        np.testing.assert_array_equal(found, whole[y : y + h, x : x + w], err_msg=f"at {y}, {x}")


@pytest.mark.parametrize("subsampling", [1, 2])
def test_the_last_columns(tmp_path: Path, level: str, subsampling: int) -> None:
    file = image_file(noise(0, 40, 131), "JPEG", subsampling=subsampling)  # the last tile has three columns
    path = write(tmp_path / "x.beton", [file])
    whole = pixels_of(file)
    for width in (1, 2, 3, 4, 9):
        (found,) = load_windows(path, 0, [(3, 131 - width, 30, width)])
        np.testing.assert_array_equal(found, whole[3:33, 131 - width :])


# -- what is counted -----------------------------------------------------------------------------------------


def test_counts_name_the_reasons(large: Files, level: str) -> None:
    crop = CROPS["random"]
    indexed, plain, chosen = (
        loader(large.indexed, crop),
        loader(large.plain, crop),
        loader(large.indexed, crop, jpeg="libjpeg"),
    )
    for each in (indexed, plain, chosen):
        list(each)
    windowed, others = len(WINDOWED), len(OTHER_KINDS)
    if level == "avx512":
        assert counts(indexed) == {"window": windowed, "libjpeg_by_kind": others}
        assert counts(plain) == {"window_without_index": windowed, "libjpeg_by_kind": others}
    else:  # without an index our decoder would be slower
        assert counts(indexed) == {"window": windowed, "libjpeg_by_kind": others}
        assert counts(plain) == {"libjpeg_by_options": windowed, "libjpeg_by_kind": others}
    assert counts(chosen) == {"libjpeg_by_options": windowed + others}


@needs_decoder
def test_counts_of_reduced_decoding(tmp_path: Path) -> None:
    path = write(tmp_path / "x.beton", [WINDOWED["even"]] * 4)
    whole, reduced = loader(path, [ops.Resize(16)]), loader(path, [ops.Resize(16, reduced=True)])
    list(whole), list(reduced)
    assert counts(whole) == {"window": 4}
    assert counts(reduced) == {"libjpeg_by_options": 4}


def test_raw_pictures_are_not_counted(large: Files) -> None:
    raw = loader(large.raw, CROPS["random"])
    list(raw)
    assert counts(raw) == {}
    assert list(raw.stats.jpegs.values()) == [0] * 6


@needs_decoder
def test_counts_add_up_over_epochs_and_single_batches(large: Files) -> None:
    found = loader(large.indexed, CROPS["random"])
    list(found), list(found)
    _ = found[0]
    assert sum(found.stats.jpegs.values()) == 2 * len(WINDOWED | OTHER_KINDS) + 8


@needs_decoder
def test_two_fields_have_indices_of_their_own(tmp_path: Path) -> None:
    fields = {"left": ps.Image(), "mask": ps.Image(mode="raw"), "right": ps.Image(), "label": ps.Int()}
    jpegs = list(WINDOWED.values())
    samples = [(jpegs[i], np.full((40, 40, 3), i, np.uint8), jpegs[-i - 1], i) for i in range(8)]
    ps.write(tmp_path / "x.beton", samples, fields=fields, page_size=1 << 21)
    crop = [ops.RandomResizedCrop(16, reduced=False)]
    pipelines = {"left": crop, "mask": crop, "right": crop}
    found = ps.Loader(tmp_path / "x.beton", 4, pipelines=pipelines)
    expected = ps.Loader(tmp_path / "x.beton", 4, pipelines=pipelines, jpeg="libjpeg")
    assert contents(found) == contents(expected)
    assert counts(found) == {"window": 16}


def test_a_wrong_choice_is_refused(large: Files) -> None:
    with pytest.raises(ValueError, match="jpeg must be 'window', 'slice' or 'libjpeg', got 'turbo'"):
        loader(large.indexed, CROPS["random"], jpeg="turbo")


# -- indices that are damaged ----------------------------------------------------------------------------------


class Tiles:
    """The ``jpeg_tiles`` section of a file under the knife."""

    def __init__(self, path: Path, count: int) -> None:
        self.surgeon = Surgeon(path)
        self.start, self.size = sections_of(path)["jpeg_tiles"]
        self.count = count
        self.first = self.start + 8 + 8 * (count + 1)  # byte of the packed indices

    @property
    def offsets(self) -> np.ndarray:
        return np.frombuffer(self.surgeon.data, "<u8", self.count + 1, self.start + 8).copy()

    def set_offsets(self, offsets: Any) -> None:
        self.surgeon.put(self.start + 8, np.asarray(offsets, "<u8").tobytes())

    def entry(self, i: int) -> bytes:
        first, end = self.offsets[i : i + 2].tolist()
        return bytes(self.surgeon.data[self.first + first : self.first + end])

    def set_entries(self, entries: list[bytes]) -> None:
        assert sum(map(len, entries)) == self.size - (self.first - self.start)
        self.set_offsets([0, *np.cumsum([len(entry) for entry in entries])])
        self.surgeon.put(self.first, b"".join(entries))

    def save(self, target: Path) -> Path:
        return self.surgeon.save(target)


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return Files.make(tmp_path_factory.mktemp("good"), WINDOWED)


def tiles_of(files: Files) -> Tiles:
    return Tiles(files.indexed, len(WINDOWED))


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
    assert all(str(path) in text and text.endswith("penstock index --embed") for text in told)


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
    tiles = Tiles(path, 2)
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
    with ps.open(path) as dataset:
        assert dataset.tiles is not None
        assert 0 <= dataset.tiles.count <= len(WINDOWED)


def test_a_section_for_another_number_of_fields_is_refused(good: Files, tmp_path: Path) -> None:
    tiles = tiles_of(good)
    tiles.surgeon.put(tiles.start, b"\x02")
    with pytest.raises(AnnexError, match="jpeg_tiles"):
        list(loader(tiles.save(tmp_path / "x.beton"), CROPS["random"]))


@needs_decoder
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


@needs_decoder
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


@needs_decoder
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


# -- instruction sets and slices by choice --------------------------------------------------------------------


def test_slices_by_choice(large: Files) -> None:
    cut, expected = loader(large.indexed, CROPS["random"], jpeg="slice"), contents(loader(large.raw, CROPS["random"]))
    assert contents(cut) == expected
    assert counts(cut) == {"window": len(WINDOWED), "libjpeg_by_kind": len(OTHER_KINDS)}
    plain = loader(large.plain, CROPS["random"], jpeg="slice")
    assert contents(plain) == expected
    assert counts(plain) == {"libjpeg_by_options": len(WINDOWED), "libjpeg_by_kind": len(OTHER_KINDS)}


def level_of(value: str) -> subprocess.CompletedProcess[str]:
    code = "from penstock._native import simd_level; print(simd_level())"
    environment = os.environ | {"PENSTOCK_SIMD": value}
    return subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("name", LEVELS)
def test_the_environment_chooses_the_instruction_set(name: str) -> None:
    assert level_of(name).stdout.strip() == name


def test_a_wrong_instruction_set_is_told() -> None:
    expected = "ValueError: the environment variable PENSTOCK_SIMD is wrong: unknown SIMD level 'mmx'; known are scalar"
    assert expected in level_of("mmx").stderr


# -- fast, not exact ---------------------------------------------------------------------------------------------

SMOOTH = [image_file(picture(i, 90 + 7 * i, 120 - 3 * i), "JPEG", quality=90, subsampling=i % 3) for i in range(9)]
FAST_OPS: dict[str, list[Any]] = {
    "area": [ops.RandomResizedCrop(40)],
    "bilinear, mirrored": [ops.RandomResizedCrop(40, interpolation="bilinear"), ops.RandomHorizontalFlip()],
    "planes": [ops.RandomResizedCrop(40), NCHW],
    "steps": [ops.RandomResizedCrop(40), ops.RandomBrightness(0.3, 1.0), ops.Cutout(8)],
    "float": [ops.RandomResizedCrop(40), ops.Normalize((1.0, 2.0, 3.0), (1.0, 1.0, 1.0), dtype="float32")],
}


@pytest.mark.skipif("avx512" not in LEVELS, reason="elsewhere the exact way is faster")
@pytest.mark.parametrize("name", FAST_OPS)
@pytest.mark.parametrize("has_index", [True, False])
def test_fast_is_close_to_exact(tmp_path: Path, name: str, has_index: bool) -> None:
    path = write(tmp_path / "x.beton", SMOOTH, jpeg_index=has_index)
    fast, exact = (ps.Loader(path, 9, pipelines={"image": FAST_OPS[name]}, precision=p) for p in ("fast", "exact"))
    found, expected = fast[0].image.astype(np.float64), exact[0].image.astype(np.float64)
    off = np.abs(found - expected)
    assert 0 < off.mean() < 1
    assert 20 * np.log10(255 / np.sqrt((off**2).mean())) > 44
    assert counts(fast) == counts(exact) == {"window" if has_index else "window_without_index": 9}


@pytest.mark.parametrize("name", ["bicubic", "lanczos", "nearest"])
def test_fast_leaves_sharp_filters_exact(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / "x.beton", SMOOTH)
    crop = [ops.RandomResizedCrop(40, interpolation=name)]
    assert contents(loader(path, crop, precision="fast")) == contents(loader(path, crop))


def test_fast_is_the_same_for_any_number_of_workers_and_tile_size(tmp_path: Path) -> None:
    path = write(tmp_path / "x.beton", SMOOTH)
    crop = CROPS["random"]
    expected = contents(loader(path, crop, precision="fast", workers=1))
    assert contents(loader(path, crop, precision="fast", workers=5)) == expected


def test_fast_is_exact_without_avx512(tmp_path: Path, level: str) -> None:
    path = write(tmp_path / "x.beton", SMOOTH)
    crop = CROPS["random"]
    is_same = contents(loader(path, crop, precision="fast")) == contents(loader(path, crop))
    assert is_same == (level != "avx512")


def test_damage_does_not_stop_the_fast_way(tmp_path: Path) -> None:
    path = write(tmp_path / "x.beton", [*SMOOTH, *OTHER_KINDS.values()])
    tiles = Tiles(path, len(SMOOTH) + len(OTHER_KINDS))
    tiles.surgeon.flip(tiles.first + 40)
    found = loader(tiles.save(tmp_path / "y.beton"), CROPS["random"], precision="fast")
    with pytest.warns(RuntimeWarning, match="sample 0, field 'image': the index of the JPEG is not used"):
        list(found)
    assert counts(found)["indices_rejected"] == 1
    assert counts(found)["libjpeg_by_kind"] == len(OTHER_KINDS)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"precision": "half"}, "precision must be 'exact' or 'fast', got 'half'"),
        ({"precision": "fast", "jpeg": "libjpeg"}, "precision='fast' needs jpeg='window', got jpeg='libjpeg'"),
    ],
)
def test_wrong_precision_is_refused(large: Files, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        loader(large.indexed, CROPS["random"], **options)


def test_the_plan_tells_how_jpegs_are_decoded(large: Files, level: str) -> None:
    def told(**options: Any) -> str:
        lines: list[str] = loader(large.indexed, CROPS["random"], **options).plan().splitlines()
        return next(line for line in lines if line.startswith("JPEGs: "))

    assert told(jpeg="libjpeg") == "JPEGs: by libjpeg-turbo; exact"
    assert "cut out by the index for libjpeg-turbo" in told(jpeg="slice")
    assert told().endswith("; exact")
    expected = {"avx512": "; fast: close to exact, for area and bilinear", "avx2": "'fast' needs AVX-512"}
    assert told(precision="fast").endswith(expected.get(level, "; exact"))
