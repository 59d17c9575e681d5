from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.unit.ops.tools import COUNT, HEIGHT, SIZE, WIDTH, draws, load

from headrace.ops import (
    Cutout,
    RandomBrightness,
    RandomCrop,
    RandomHorizontalFlip,
    RandomRotate90,
    RandomTranslate,
    RandomVerticalFlip,
    Resize,
    ToDtype,
    ToLayout,
)

if TYPE_CHECKING:
    from pathlib import Path

FILLS = [7, (250, 0, 31)]


def flipped(op: RandomHorizontalFlip, pixels: np.ndarray) -> np.ndarray:
    flips = op.flips(draws(len(pixels), share=op.share)).astype(bool)
    return np.stack([p[:, ::-1] if flip else p for p, flip in zip(pixels, flips, strict=True)])


def padded(picture: np.ndarray, padding: int, fill: Any) -> np.ndarray:
    frame = np.empty((picture.shape[0] + 2 * padding, picture.shape[1] + 2 * padding, 3), np.uint8)
    frame[:] = fill
    frame[padding : padding + picture.shape[0], padding : padding + picture.shape[1]] = picture
    return frame


def windows(pixels: np.ndarray, corners: np.ndarray, size: tuple[int, int], padding: int, fill: Any) -> np.ndarray:
    """Parts of padded pictures; corners are counted from the corner of the picture itself."""
    parts = []
    for picture, (top, left) in zip(pixels, corners + padding, strict=True):
        parts.append(padded(picture, padding, fill)[top : top + size[0], left : left + size[1]])
    return np.stack(parts)


# -- flip ---------------------------------------------------------------------------------------------------------


def test_flips_have_their_probability() -> None:
    assert RandomHorizontalFlip(0).flips(draws(100)).sum() == 0
    assert RandomHorizontalFlip(1).flips(draws(100)).sum() == 100
    assert abs(RandomHorizontalFlip(0.25).flips(draws(20_000)).mean() - 0.25) < 0.015


def test_a_flip_mirrors_left_and_right(path: Path, pixels: np.ndarray) -> None:
    op = RandomHorizontalFlip(share="flip")
    found = load(path, op)
    np.testing.assert_array_equal(found, flipped(op, pixels))
    assert 0 < (found != pixels).any(axis=(1, 2, 3)).sum() < COUNT
    np.testing.assert_array_equal(load(path, RandomHorizontalFlip(1)), pixels[:, :, ::-1])


def test_flips_among_other_steps(path: Path, pixels: np.ndarray) -> None:
    first, second = RandomHorizontalFlip(share="a"), RandomHorizontalFlip(share="b")
    move = RandomTranslate(3, fill=9, share="c")
    corners = move.step(SIZE, draws(share="c"))[:, :2].astype(int)
    moved = windows(flipped(first, pixels), corners, SIZE, 3, 9)
    np.testing.assert_array_equal(load(path, first, move, second), flipped(second, moved))
    straight = windows(pixels, corners, SIZE, 3, 9)
    np.testing.assert_array_equal(load(path, move, second), flipped(second, straight))


def test_two_flips_undo_each_other(path: Path, pixels: np.ndarray) -> None:
    flip = RandomHorizontalFlip(share="a")
    np.testing.assert_array_equal(load(path, flip, flip), pixels)
    np.testing.assert_array_equal(load(path, flip, RandomBrightness(0, 1), flip), pixels)


def test_vertical_flips(path: Path, pixels: np.ndarray) -> None:
    np.testing.assert_array_equal(load(path, RandomVerticalFlip(1)), pixels[:, ::-1])
    np.testing.assert_array_equal(load(path, RandomVerticalFlip(0)), pixels)
    op = RandomVerticalFlip(0.4, share="flip")
    flips = op.step(SIZE, draws(share="flip"))[:, 0]
    assert 0 < flips.sum() < COUNT
    np.testing.assert_array_equal(load(path, op), np.where(flips[:, None, None, None] != 0, pixels[:, ::-1], pixels))
    assert abs(op.step(SIZE, draws(20_000)).mean() - 0.4) < 0.015
    both = load(path, RandomHorizontalFlip(1), RandomVerticalFlip(1))
    np.testing.assert_array_equal(both, pixels[:, ::-1, ::-1])


# -- quarter turns ------------------------------------------------------------------------------------------------


def test_turns_are_those_of_numpy(path: Path) -> None:
    op = RandomRotate90(share="turn")
    square = load(path, Resize(HEIGHT))
    turns = op.step((HEIGHT, HEIGHT), draws(share="turn"))[:, 0]
    assert set(turns) == {0, 1, 2, 3}
    expected = np.stack([np.rot90(picture, int(k)) for picture, k in zip(square, turns, strict=True)])
    np.testing.assert_array_equal(load(path, Resize(HEIGHT), op), expected)
    nchw = load(path, Resize(HEIGHT), op, ToDtype("float32"), ToLayout("NCHW"))
    np.testing.assert_array_equal(nchw, expected.transpose(0, 3, 1, 2))


def test_turns_are_equally_likely() -> None:
    _, counts = np.unique(RandomRotate90().step((8, 8), draws(20_000)), return_counts=True)
    assert abs(counts / 20_000 - 0.25).max() < 0.015


def test_turns_need_squares(path: Path) -> None:
    message = "RandomRotate90 needs square pictures, and gets pictures of 28x20: .* put RandomResizedCrop, CenterCrop"
    with pytest.raises(ValueError, match=message):
        load(path, RandomRotate90())
    with pytest.raises(ValueError, match=r"pipelines\['image'\]: RandomRotate90 needs square pictures, .* of 9x8"):
        load(path, Resize((8, 9)), RandomRotate90())


# -- translate ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fill", FILLS)
@pytest.mark.parametrize("padding", [0, 4, 33])
def test_translate_is_a_window_of_the_padded_picture(path: Path, pixels: np.ndarray, fill: Any, padding: int) -> None:
    op = RandomTranslate(padding, fill=fill, share="move")
    corners = op.step(SIZE, draws(share="move"))[:, :2].astype(int)
    np.testing.assert_array_equal(load(path, op), windows(pixels, corners, SIZE, padding, fill))


def test_translate_goes_equally_often_to_all_places() -> None:
    steps = RandomTranslate(2).step(SIZE, draws(20_000))[:, :2]
    for axis in range(2):
        places, counts = np.unique(steps[:, axis], return_counts=True)
        assert places.tolist() == [-2, -1, 0, 1, 2]
        assert abs(counts / len(steps) - 0.2).max() < 0.015
    assert abs(np.corrcoef(steps.T)[0, 1]) < 0.03


def test_translate_has_its_probability() -> None:
    steps = RandomTranslate(1000, probability=0.25).step(SIZE, draws(20_000))
    is_still = (steps[:, :2] == 0).all(axis=1)
    assert abs(is_still.mean() - 0.75) < 0.015


# -- cut out ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fill", FILLS)
@pytest.mark.parametrize("side", [1, 6, HEIGHT])
def test_cutout_fills_one_square(path: Path, pixels: np.ndarray, fill: Any, side: int) -> None:
    op = Cutout(side, fill=fill, share="cut")
    expected = pixels.copy()
    for picture, (top, left) in zip(expected, op.step(SIZE, draws(share="cut"))[:, :2].astype(int), strict=True):
        assert 0 <= top <= HEIGHT - side
        assert 0 <= left <= WIDTH - side
        picture[top : top + side, left : left + side] = fill
    np.testing.assert_array_equal(load(path, op), expected)


def test_cutout_goes_to_all_places_and_has_its_probability() -> None:
    steps = Cutout(HEIGHT - 1, probability=0.25).step(SIZE, draws(20_000))
    assert set(steps[:, 0]) == {0, 1}
    assert set(steps[:, 1]) == set(range(WIDTH - HEIGHT + 2))
    assert set(steps[:, 2]) == {0, HEIGHT - 1}
    assert abs((steps[:, 2] > 0).mean() - 0.25) < 0.015


def test_a_square_larger_than_the_picture_is_told_when_the_picture_is_known(path: Path) -> None:
    with pytest.raises(ValueError, match=rf"Cutout\({HEIGHT + 1}\) does not fit into pictures of 28x20"):
        load(path, Cutout(HEIGHT + 1))
    with pytest.raises(ValueError, match=r"Cutout\(9\) does not fit into pictures of uint8 of shape \(8, 8, 3\)"):
        load(path, Resize(8), Cutout(9))


# -- crop, with and without padding, flip on either side ------------------------------------------------------------


def corners_of(op: RandomCrop) -> np.ndarray:
    heights, widths = np.full(COUNT, HEIGHT), np.full(COUNT, WIDTH)
    return op.crops(heights, widths, draws(share=op.share))[:, :2]


@pytest.mark.parametrize("fill", FILLS)
@pytest.mark.parametrize(
    ("size", "padding"),
    [
        ((9, 12), 0),
        (SIZE, 0),
        ((9, 12), 5),
        (SIZE, 5),
        ((HEIGHT + 8, WIDTH - 3), 5),
        ((HEIGHT - 3, WIDTH + 1), 5),
        ((HEIGHT + 10, WIDTH + 10), 5),
        ((5, 6), 40),  # often all of it is fill
    ],
)
def test_a_crop_is_a_window_of_the_padded_picture(
    path: Path, pixels: np.ndarray, size: tuple[int, int], padding: int, fill: Any
) -> None:
    op = RandomCrop(size, padding=padding, fill=fill, share="crop")
    expected = windows(pixels, corners_of(op), size, padding, fill)
    flip = RandomHorizontalFlip(share="flip")
    np.testing.assert_array_equal(load(path, op), expected)
    np.testing.assert_array_equal(load(path, op, flip), flipped(flip, expected))
    mirrored = windows(flipped(flip, pixels), corners_of(op), size, padding, fill)
    np.testing.assert_array_equal(load(path, flip, op), mirrored)
    np.testing.assert_array_equal(load(path, flip, op, flip), flipped(flip, mirrored))


@pytest.mark.parametrize("size", [(9, 12), (HEIGHT + 8, WIDTH - 3), (4, 5)])
def test_a_padded_crop_goes_on_through_other_steps_types_and_layouts(
    path: Path, pixels: np.ndarray, size: tuple[int, int]
) -> None:
    op, flip = RandomCrop(size, padding=7, fill=(1, 200, 3), share="crop"), RandomHorizontalFlip(share="flip")
    expected = flipped(flip, windows(pixels, corners_of(op), size, 7, (1, 200, 3)))
    move = RandomTranslate(2, fill=9, share="move")
    expected = windows(expected, move.step(size, draws(share="move"))[:, :2].astype(int), size, 2, 9)
    found = load(path, op, flip, move, ToDtype("float32"), ToLayout("NCHW"))
    np.testing.assert_array_equal(found, expected.transpose(0, 3, 1, 2).astype(np.float32))


def test_a_crop_goes_equally_often_to_all_places() -> None:
    heights, widths = np.full(20_000, 5), np.full(20_000, 4)
    op = RandomCrop(4, padding=1)
    corners = op.crops(heights, widths, draws(20_000))[:, :2]
    for axis, expected in ((0, [-1, 0, 1, 2]), (1, [-1, 0, 1])):
        places, counts = np.unique(corners[:, axis], return_counts=True)
        assert places.tolist() == expected
        assert abs(counts / len(corners) - 1 / len(expected)).max() < 0.015


def test_flip_before_and_after_a_resize_differ_by_rounding_only(path: Path) -> None:
    flip = RandomHorizontalFlip(1)
    for interpolation in ("area", "bilinear", "bicubic", "lanczos"):
        resize: Any = Resize((9, 13), interpolation=interpolation)
        before, after = load(path, flip, resize), load(path, resize, flip)
        assert abs(before.astype(int) - after).max() <= 1
