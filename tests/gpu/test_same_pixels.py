"""Batches of the GPU are those of the CPU to the last bit: kinds of JPEGs, sizes, filters, ops, types, damage."""

from __future__ import annotations

import itertools
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.gpu.tools import assert_same, assert_same_batches, pair
from tests.helpers import Surgeon, image_file, picture
from tests.unit.loader.jpegs import CROPS, NCHW, SMALL, UNSCALED, Files, TileIndex, made, noise, write

import headrace as hr
from headrace import ops

if TYPE_CHECKING:
    from pathlib import Path

FILTERS = ["area", "bilinear", "bicubic", "lanczos", "nearest"]


@pytest.mark.parametrize("name", CROPS | UNSCALED)
def test_kinds_of_jpegs(large: Files, name: str) -> None:
    found = assert_same(large.indexed, (CROPS | UNSCALED)[name])
    assert found.stats.jpegs["gpu"] > 0
    assert_same(large.raw, (CROPS | UNSCALED)[name])


@pytest.mark.parametrize("interpolation", FILTERS)
@pytest.mark.parametrize("size", [(1, 1), (7, 40), (96, 96), (200, 30), (224, 224)])
def test_filters(large: Files, interpolation: Any, size: tuple[int, int]) -> None:
    for crop in (
        ops.RandomResizedCrop(size, interpolation=interpolation),
        ops.CenterCrop(size, ratio=0.9, interpolation=interpolation),
        ops.Resize(size, interpolation=interpolation),
    ):
        is_counted = size != (1, 1)  # pictures that shrink so much are the CPU's
        assert_same(large.indexed, [crop, ops.RandomHorizontalFlip()], is_counted=is_counted)
        assert_same(large.raw, [crop, ops.RandomHorizontalFlip()])


@pytest.mark.parametrize("scale", [(0.001, 0.03), (0.5, 1.0)])
@pytest.mark.parametrize("interpolation", FILTERS)
def test_small_and_large_parts(large: Files, interpolation: Any, scale: tuple[float, float]) -> None:
    crop = ops.RandomResizedCrop(32, scale=scale, ratio=(0.2, 5), interpolation=interpolation)
    for first in ([crop], [ops.RandomHorizontalFlip(), crop]):
        assert_same(large.indexed, first)


@pytest.mark.parametrize("layout", ["NHWC", "NCHW", "channels_last"])
@pytest.mark.parametrize("dtype", ["uint8", "float16", "float32", "plain float32"])
def test_types_and_layouts(large: Files, layout: Any, dtype: str) -> None:
    last: list[Any] = [] if dtype == "uint8" else [ops.Normalize([120.5, 99, 88], [60, 59.5, 57], dtype=dtype[-7:])]
    last = [ops.ToDtype("float32")] if dtype == "plain float32" else last
    assert_same(large.indexed, [ops.RandomResizedCrop(37), *last, ops.ToLayout(layout)])
    assert_same(large.raw, [ops.RandomResizedCrop(37), *last, ops.ToLayout(layout)])


STEPS: dict[str, list[Any]] = {
    "brightness": [ops.RandomBrightness(0.5, 0.9)],
    "contrast": [ops.RandomContrast(0.5, 0.9)],
    "saturation": [ops.RandomSaturation(0.5, 0.9)],
    "jitter": [ops.ColorJitter(0.4, 0.4, 0.4, 0.2)],
    "grey": [ops.RandomGrayscale(0.5)],
    "blur": [ops.GaussianBlur(5)],
    "flips": [ops.RandomHorizontalFlip(), ops.RandomHorizontalFlip(), ops.RandomVerticalFlip()],
    "turns": [ops.RandomRotate90()],
    "translate": [ops.RandomTranslate(9, fill=(7, 8, 9))],
    "cutout": [ops.Cutout(11, fill=(1, 2, 3))],
    "erasing": [ops.RandomErasing(0.8)],
    "rand augment": [ops.RandAugment()],
    "trivial augment": [ops.TrivialAugmentWide()],
    "many": [
        ops.ColorJitter(0.4, 0.4, 0.4, 0.1),
        ops.RandomTranslate(3),
        ops.GaussianBlur(3),
        ops.RandomRotate90(),
        ops.RandAugment(),
        ops.Cutout(4),
    ],
}


@pytest.mark.parametrize("name", STEPS)
def test_steps(large: Files, name: str) -> None:
    for last in ([], [ops.Normalize([120] * 3, [60] * 3, dtype="float16"), NCHW], [ops.ToLayout("channels_last")]):
        for path in (large.indexed, large.raw):
            found, expected = pair(path, [ops.RandomResizedCrop(40), ops.RandomHorizontalFlip(), *STEPS[name], *last])
            assert_same_batches(found, expected, epochs=3)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every side from 1 to 64, every sampling."""
    files = list(SMALL.values())
    for side, sampling in itertools.product(range(1, 65), (0, 1, 2)):
        files.append(made(side, side, side, subsampling=sampling))
        files.append(made(side, side, 65 - side, subsampling=sampling, restart_marker_blocks=side % 4))
    files += [image_file(picture(side, side, 65 - side)[:, :, 0], "JPEG") for side in range(1, 65)]
    return write(tmp_path_factory.mktemp("small") / "x.beton", files)


@pytest.mark.parametrize("interpolation", FILTERS)
def test_sizes(small: Path, interpolation: Any) -> None:
    for crop in (ops.RandomResizedCrop(24, interpolation=interpolation), ops.Resize(31, interpolation=interpolation)):
        assert_same(small, [crop, ops.RandomHorizontalFlip(), NCHW], batch_size=64)
    assert_same(small, [ops.RandomCrop(20, padding=20, fill=(1, 2, 3))], batch_size=64)


def test_whole_pictures_without_any_op(tmp_path: Path) -> None:
    path = write(tmp_path / "x.beton", [made(i, 57, 75, subsampling=i % 3) for i in range(20)])
    assert_same(path, [])
    assert_same(path, [ops.RandomHorizontalFlip()])


def test_qualities(tmp_path: Path) -> None:
    files = [
        image_file(noise(q, 60, 80) if q % 2 else picture(q, 60, 80), "JPEG", quality=q, subsampling=q % 3)
        for q in range(1, 101)
    ]
    path = write(tmp_path / "x.beton", files)
    found = assert_same(path, [ops.RandomResizedCrop(32)], batch_size=50)
    assert found.stats.jpegs["gpu"] > 50


def test_restart_intervals(tmp_path: Path) -> None:
    files = [
        made(i, 60 + i, 90, subsampling=s, restart_marker_blocks=i, optimize=i % 2 == 0)
        for i, s in itertools.product(range(1, 20), (0, 1, 2))
    ]
    files += [made(i, 60, 90, subsampling=i, restart_marker_rows=1) for i in range(3)]
    found = assert_same(write(tmp_path / "x.beton", files), [ops.RandomResizedCrop(32)], batch_size=16)
    assert found.stats.jpegs["gpu"] > 50


def test_files_without_indices_are_decoded_by_the_cpu(large: Files, tmp_path: Path) -> None:
    mixed = [made(i, 80, 90) if i % 2 else picture(i, 80, 90) for i in range(40)]
    hr.write(
        tmp_path / "x.beton",
        [(file, i) for i, file in enumerate(mixed)],
        fields={"image": hr.Image(mode="proportion"), "label": hr.Int()},
        page_size=1 << 21,
    )
    assert_same(tmp_path / "x.beton", CROPS["random"])


def flipped(path: Path, target: Path, seed: int) -> Path:
    """One byte of the codes of every picture is another."""
    surgeon, dataset = Surgeon(path), hr.open(path)
    rng = np.random.default_rng(seed)
    for i, size in enumerate(map(len, dataset.read_bytes(range(len(dataset)), "image"))):
        first = int(dataset.image_facts("image")["data_ptr"][i])
        surgeon.put(first + int(rng.integers(size * 2 // 3, size - 2)), bytes([rng.integers(0, 255)]))
    return surgeon.save(target)


@pytest.mark.parametrize("seed", range(4))
def test_damaged_codes(large: Files, tmp_path: Path, seed: int) -> None:
    damaged = flipped(large.indexed, tmp_path / "x.beton", seed)
    found, expected = pair(damaged, [ops.Resize(60)], verify=False, on_error="skip")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert_same_batches(found, expected)
    assert sorted(map(str, found.errors)) == sorted(map(str, expected.errors))


def test_damage_that_checksums_find(large: Files, tmp_path: Path) -> None:
    damaged = flipped(large.indexed, tmp_path / "x.beton", 1)
    found, expected = (each.filter("label", lambda i: i < 3) for each in pair(damaged, CROPS["random"]))
    messages = []
    for each in (found, expected):
        with pytest.raises(hr.errors.CorruptSampleError, match="checksum") as caught:
            list(each)
        messages.append(str(caught.value))
    assert messages[0] == messages[1]


def test_indices_that_are_not_right(large: Files, tmp_path: Path) -> None:
    tiles = TileIndex(large.indexed, len(hr.open(large.indexed)))
    tiles.surgeon.flip(tiles.first + 40)
    found, expected = pair(tiles.save(tmp_path / "y.beton"), CROPS["random"], verify=False)
    for each in (found, expected):
        with pytest.warns(RuntimeWarning, match="sample 0, field 'image': the index of the JPEG is not used"):
            list(each)
    assert found.stats.jpegs["indices_rejected"] == expected.stats.jpegs["indices_rejected"] == 1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert_same_batches(found, expected)
