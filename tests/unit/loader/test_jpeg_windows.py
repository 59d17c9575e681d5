"""Crops of JPEGs: the same pixels by an index, without one and by libjpeg-turbo, and what is counted on the way.

The reference is a file of raw pixels that Pillow decoded: crops, flips and filters are the same, and no JPEG is left.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.helpers import image_file
from tests.unit.loader.jpegs import (
    CROPS,
    NEEDS_DECODER,
    OTHER_KINDS,
    SMALL,
    UNSCALED,
    WINDOWED,
    Files,
    counts,
    loader,
    noise,
    pixels_of,
    write,
)
from tests.unit.loader.tools import contents

import headrace as hr
from headrace import _native, ops

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return Files.make(tmp_path_factory.mktemp("small"), SMALL)


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
    spans = hr.open(path).image_spans(np.array([sample]), "image")
    threads = _native.ImageLoader(1)
    found = []
    for window in windows:
        out = np.empty((1, *window[2:], 3), np.uint8)
        options = _native.LoadOptions(interpolation="nearest")
        report = threads.load(spans, np.array([window], np.int32), np.zeros(1, np.uint8), out, options)
        assert report.failures == []
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


@NEEDS_DECODER
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
    assert list(raw.stats.jpegs.values()) == [0] * 7


@NEEDS_DECODER
def test_counts_add_up_over_epochs_and_single_batches(large: Files) -> None:
    found = loader(large.indexed, CROPS["random"])
    list(found), list(found)
    _ = found[0]
    assert sum(found.stats.jpegs.values()) == 2 * len(WINDOWED | OTHER_KINDS) + 8


@NEEDS_DECODER
def test_two_fields_have_indices_of_their_own(tmp_path: Path) -> None:
    fields = {"left": hr.Image(), "mask": hr.Image(mode="raw"), "right": hr.Image(), "label": hr.Int()}
    jpegs = list(WINDOWED.values())
    samples = [(jpegs[i], np.full((40, 40, 3), i, np.uint8), jpegs[-i - 1], i) for i in range(8)]
    hr.write(tmp_path / "x.beton", samples, fields=fields, page_size=1 << 21)
    crop = [ops.RandomResizedCrop(16, reduced=False)]
    pipelines = {"left": crop, "mask": crop, "right": crop}
    found = hr.Loader(tmp_path / "x.beton", 4, pipelines=pipelines)
    expected = hr.Loader(tmp_path / "x.beton", 4, pipelines=pipelines, jpeg="libjpeg")
    assert contents(found) == contents(expected)
    assert counts(found) == {"window": 16}


def test_a_wrong_choice_is_refused(large: Files) -> None:
    with pytest.raises(ValueError, match="jpeg must be one of auto, gpu, window, slice, libjpeg, got 'turbo'"):
        loader(large.indexed, CROPS["random"], jpeg="turbo")
