from __future__ import annotations

import io
import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image as Pillow
from tests.helpers import image_file, picture
from tests.unit.loader.tools import write_pictures
from tests.unit.ops.tools import COUNT, HEIGHT, SIZE, WIDTH, draws, load

from headrace import Loader
from headrace._native import NativeError
from headrace.ops import CenterCrop, Draws, RandomCrop, RandomHorizontalFlip, RandomResizedCrop, Resize

if TYPE_CHECKING:
    from pathlib import Path

SIDES = st.integers(1, 5000)
PILLOW = {
    "bilinear": Pillow.Resampling.BILINEAR,
    "bicubic": Pillow.Resampling.BICUBIC,
    "lanczos": Pillow.Resampling.LANCZOS,
}


@given(
    sides=st.lists(st.tuples(SIDES, SIDES), min_size=1, max_size=30),
    scale=st.tuples(st.floats(0.01, 1), st.floats(0.01, 1)).map(lambda pair: (min(pair), max(pair))),
    seed=st.integers(0, 2**32),
)
def test_a_random_crop_lies_inside(sides: list[tuple[int, int]], scale: tuple[float, float], seed: int) -> None:
    heights, widths = np.array(sides).T
    crops = RandomResizedCrop(8, scale=scale).crops(heights, widths, draws(len(sides), seed=seed))
    top, left, h, w = crops.T
    assert (h >= 1).all()
    assert (w >= 1).all()
    assert (top >= 0).all()
    assert (left >= 0).all()
    assert (top + h <= heights).all()
    assert (left + w <= widths).all()


def test_a_random_crop_keeps_to_scale_and_ratio() -> None:
    n = 4000
    heights, widths = np.full(n, 480), np.full(n, 640)
    crops = RandomResizedCrop(8, scale=(0.2, 0.6)).crops(heights, widths, draws(n)).astype(float)
    share = crops[:, 2] * crops[:, 3] / (480 * 640)
    assert 0.19 < share.min() < 0.21
    assert 0.59 < share.max() < 0.61
    assert abs(share.mean() - 0.4) < 0.01
    aspect = crops[:, 3] / crops[:, 2]
    assert 0.74 < aspect.min() < 0.76
    assert 1.32 < aspect.max() < 1.35
    assert abs(np.log(aspect).mean()) < 0.02
    assert crops[:, 0].min() == 0
    assert (crops[:, 0] + crops[:, 2]).max() == 480


def test_a_picture_that_no_crop_fits_gets_the_largest_middle() -> None:
    crops = RandomResizedCrop(8, scale=(1, 1)).crops(np.array([10, 1000]), np.array([1000, 10]), draws(2))
    assert crops.tolist() == [[0, 493, 10, 13], [493, 0, 13, 10]]


def test_the_same_words_give_the_same_crop() -> None:
    op, sides = RandomResizedCrop(8), np.full(5, 300)
    first = op.crops(sides, sides, draws(5))
    np.testing.assert_array_equal(first, op.crops(sides, sides, draws(5)))
    assert (first != op.crops(sides, sides, draws(5, seed=1))).any()
    assert (first != op.crops(sides, sides, draws(5, op=2))).any()
    some = Draws(0, 0, 1, np.array([3, 1]))
    np.testing.assert_array_equal(op.crops(sides[:2], sides[:2], some), first[[3, 1]])


def test_center_crop_is_ffcvs() -> None:
    crops = CenterCrop(8, ratio=0.875).crops(np.array([100, 51, 1]), np.array([64, 50, 9]), draws(3))
    assert crops.tolist() == [[22, 4, 56, 56], [4, 3, 43, 43], [0, 4, 1, 1]]


def test_resize_takes_all() -> None:
    assert Resize((3, 4)).crops(np.array([7]), np.array([9]), draws(1)).tolist() == [[0, 0, 7, 9]]


def test_a_crop_of_the_pictures_own_size_is_the_picture(path: Path, pixels: np.ndarray) -> None:
    np.testing.assert_array_equal(load(path, RandomCrop(SIZE)), pixels)
    np.testing.assert_array_equal(load(path, Resize(SIZE)), pixels)
    middle = pixels[:, :, (WIDTH - HEIGHT) // 2 : (WIDTH - HEIGHT) // 2 + HEIGHT]
    np.testing.assert_array_equal(load(path, CenterCrop(HEIGHT)), middle)


def test_a_crop_larger_than_the_picture_names_sample_and_sizes(tmp_path: Path) -> None:
    file = write_pictures(tmp_path / "p.beton", [picture(0, 30, 30), picture(1, 12, 30)])
    loader = Loader(file, 1, pipelines={"image": [RandomCrop((16, 20))]})
    batches = iter(loader)
    assert next(batches).image.shape == (1, 16, 20, 3)
    with pytest.raises(ValueError, match="RandomCrop of 20x16 is larger than sample 1, which has 30x12 pixels;"):
        next(batches)


def test_padding_counts_before_a_crop_is_too_large(tmp_path: Path) -> None:
    file = write_pictures(tmp_path / "p.beton", [picture(0, 12, 30), picture(1, 11, 30)])
    batches = iter(Loader(file, 1, pipelines={"image": [RandomCrop((16, 20), padding=2)]}))
    assert next(batches).image.shape == (1, 16, 20, 3)
    with pytest.raises(ValueError, match="larger than sample 1, which has 30x11 pixels and a padding of 2; use Random"):
        next(batches)


def test_sizes_may_be_numpys_and_must_be_whole() -> None:
    assert Resize(np.int64(8)) == Resize((8, np.uint8(8))) == Resize(8)
    with pytest.raises(TypeError, match="integer"):
        Resize(8.5)


# -- interpolation ------------------------------------------------------------------------------------------------


def crops_of(op: Any) -> np.ndarray:
    return op.crops(np.full(COUNT, HEIGHT), np.full(COUNT, WIDTH), draws(share=getattr(op, "share", None)))


def with_pillow(pixels: np.ndarray, crop: np.ndarray, size: tuple[int, int], interpolation: str) -> np.ndarray:
    """Columns, then rows; Pillow 13 chooses the order of the passes for itself when both are asked for at once."""
    top, left, height, width = crop.tolist()
    box = (left, 0, left + width, pixels.shape[0])
    narrow = Pillow.fromarray(pixels).resize((size[1], pixels.shape[0]), PILLOW[interpolation], box=box)
    whole = narrow.resize(size[::-1], PILLOW[interpolation], box=(0, top, size[1], top + height))
    return np.asarray(whole)


@pytest.mark.parametrize("interpolation", PILLOW)
@pytest.mark.parametrize("size", [(7, 9), (40, 33), (5, 50), (1, 1)])
def test_antialiased_filters_are_pillows(
    path: Path, pixels: np.ndarray, interpolation: Any, size: tuple[int, int]
) -> None:
    for op in (
        Resize(size, interpolation=interpolation),
        CenterCrop(size, ratio=0.8, interpolation=interpolation),
        RandomResizedCrop(size, interpolation=interpolation, share="crop"),
    ):
        for found, picture_, crop in zip(load(path, op), pixels, crops_of(op), strict=True):
            expected = with_pillow(picture_, crop, size, interpolation)
            assert abs(found.astype(int) - expected).max() <= 1


def coverage(source: int, target: int) -> np.ndarray:
    """How much of each source pixel each target pixel covers; rows sum to one."""
    edges = np.arange(target + 1) * (source / target)
    low = np.maximum(edges[:-1, None], np.arange(source)[None])
    high = np.minimum(edges[1:, None], np.arange(1, source + 1)[None])
    return np.maximum(high - low, 0) / (source / target)


@pytest.mark.parametrize("size", [(7, 9), (10, 14), (1, 1), (HEIGHT, 5), (19, 27)])
def test_area_is_the_mean_of_what_a_pixel_covers(path: Path, pixels: np.ndarray, size: tuple[int, int]) -> None:
    expected = np.einsum("yh,xw,nhwc->nyxc", coverage(HEIGHT, size[0]), coverage(WIDTH, size[1]), pixels)
    assert abs(load(path, Resize(size)) - expected).max() <= 1


def test_area_of_a_random_crop(path: Path, pixels: np.ndarray) -> None:
    op = RandomResizedCrop(4, scale=(0.5, 1), share="crop")
    for found, picture_, crop in zip(load(path, op), pixels, crops_of(op), strict=True):
        top, left, height, width = crop.tolist()
        part = picture_[top : top + height, left : left + width]
        expected = np.einsum("yh,xw,hwc->yxc", coverage(height, 4), coverage(width, 4), part)
        assert abs(found - expected).max() <= 1


@pytest.mark.parametrize("size", [(33, 41), (7, 9)])
def test_nearest_invents_no_value(tmp_path: Path, size: tuple[int, int]) -> None:
    rng = np.random.default_rng(0)
    masks = rng.choice([3, 7, 200], (COUNT, HEIGHT, WIDTH, 1)).repeat(3, axis=3).astype(np.uint8)
    file = write_pictures(tmp_path / "masks.beton", masks)
    found = load(file, Resize(size, interpolation="nearest"))
    assert set(np.unique(found)) <= {3, 7, 200}
    for small, mask in zip(found, masks, strict=True):
        expected = Pillow.fromarray(mask).resize(size[::-1], Pillow.Resampling.NEAREST)
        np.testing.assert_array_equal(small, np.asarray(expected))


def test_a_reduced_decode_is_the_decoders_own(tmp_path: Path) -> None:
    files = [image_file(picture(i, 160, 240), "JPEG", quality=90) for i in range(COUNT)]
    file = write_pictures(tmp_path / "large.beton", files, mode="jpg")
    reduced = load(file, Resize((10, 12), reduced=True))
    assert (reduced != load(file, Resize((10, 12)))).any()
    for found, data in zip(reduced, files, strict=True):
        eighth = Pillow.open(io.BytesIO(data))
        eighth.draft("RGB", (30, 20))
        expected = np.einsum("yh,xw,hwc->yxc", coverage(20, 10), coverage(30, 12), np.asarray(eighth))
        assert abs(found - expected).max() <= 1


# -- pairs --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("crop", [RandomResizedCrop(9, share="a"), RandomCrop(9, padding=3, share="a")])
def test_fields_that_share_a_word_get_the_same_part(tmp_path: Path, crop: Any) -> None:
    import headrace as hr

    both = [(p, p) for p in (picture(i, 30, 40) for i in range(12))]
    fields = {"image": hr.Image(mode="raw"), "mask": hr.Image(mode="raw")}
    hr.write(tmp_path / "p.beton", both, fields=fields)
    pipeline = [crop, RandomHorizontalFlip(share="b")]
    (batch,) = Loader(tmp_path / "p.beton", 12, pipelines={"image": pipeline, "mask": pipeline})
    np.testing.assert_array_equal(batch.image, batch.mask)
    alone = [type(crop)(9), RandomHorizontalFlip()]
    (batch,) = Loader(tmp_path / "p.beton", 12, pipelines={"image": alone, "mask": alone})
    assert (batch.image != batch.mask).any()


@given(
    sides=st.lists(st.tuples(SIDES, SIDES), min_size=1, max_size=30),
    limits=st.sampled_from(
        [(0.08, 1.0, 3 / 4, 4 / 3), (0.01, 0.02, 0.1, 10.0), (1.0, 1.0, 1.0, 1.0), (0.5, 4.0, 2.0, 3.0)]
    ),
    seed=st.integers(0, 2**32),
)
def test_random_crops_are_those_of_the_recipe(
    sides: list[tuple[int, int]], limits: tuple[float, float, float, float], seed: int
) -> None:
    """The documented recipe, one picture after the other."""
    heights, widths = np.array(sides).T
    drawn = draws(len(sides), seed=seed)
    u = drawn.uniforms(0, 40)
    least, most, low, high = limits
    found = RandomResizedCrop(8, scale=(least, most), ratio=(low, high)).crops(heights, widths, drawn)
    for i, (height, width) in enumerate(sides):
        for k in range(0, 40, 4):
            area = height * width * (least + (most - least) * u[k, i])
            aspect = math.exp(math.log(low) + (math.log(high) - math.log(low)) * u[k + 1, i])
            w, h = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
            if 0 < w <= width and 0 < h <= height:
                top, left = math.floor(u[k + 2, i] * (height - h + 1)), math.floor(u[k + 3, i] * (width - w + 1))
                assert found[i].tolist() == [top, left, h, w]
                break
        else:
            h = min(height, max(1, round(width / low))) if width / height < low else height
            w = min(width, max(1, round(height * high))) if width / height > high else width
            assert found[i].tolist() == [(height - h) // 2, (width - w) // 2, h, w]


def test_sides_that_no_picture_has_are_refused() -> None:
    for sides in ([0, 5], [5, -1], [2**31, 5]):
        with pytest.raises(NativeError, match="sides of 1 to"):
            RandomResizedCrop(8).crops(np.array(sides), np.array([5, 5]), draws(2))
