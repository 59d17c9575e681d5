from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.unit.ops.tools import COUNT, HEIGHT, WIDTH, draws, load

from headrace.ops import Apply, Normalize, ToDtype, ToLayout

if TYPE_CHECKING:
    from pathlib import Path

MEAN, STD = [123.7, 116.3, 103.5], [58.4, 57.1, 57.4]
SAME = Apply(lambda images: images, "same")


def test_normalize_as_scale_and_bias() -> None:
    op = Normalize([10, 20, 30], [2, 4, 5])
    scale, bias = op.scale_and_bias()
    np.testing.assert_allclose(np.array([12, 28, 25]) * scale + bias, [1, 2, -1], rtol=1e-6)


@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-5), ("float16", 2e-3)])
@pytest.mark.parametrize("layout", ["NHWC", "NCHW", "channels_last"])
@pytest.mark.parametrize("is_layout_first", [True, False])
def test_normalize_native_and_in_python(
    path: Path, pixels: np.ndarray, dtype: Any, tolerance: float, layout: Any, is_layout_first: bool
) -> None:
    last = [Normalize(MEAN, STD, dtype), ToLayout(layout)]
    native = load(path, *(last[::-1] if is_layout_first else last))
    python = load(path, SAME, *(last[::-1] if is_layout_first else last))
    assert native.dtype == python.dtype == dtype
    assert native.shape == python.shape
    assert native.strides == python.strides
    np.testing.assert_allclose(native, python, atol=tolerance, rtol=tolerance)
    expected = (pixels.astype(float) - MEAN) / STD
    shown = native if layout == "NHWC" else native.transpose(0, 2, 3, 1)
    np.testing.assert_allclose(shown, expected, atol=tolerance, rtol=tolerance)


@pytest.mark.parametrize(
    ("layout", "shape", "first"),
    [
        ("NHWC", (COUNT, HEIGHT, WIDTH, 3), (0, 1, 2, 3)),
        ("NCHW", (COUNT, 3, HEIGHT, WIDTH), (0, 3, 1, 2)),
        ("channels_last", (COUNT, 3, HEIGHT, WIDTH), (0, 3, 1, 2)),
    ],
)
@pytest.mark.parametrize("before", [[], [SAME], [ToLayout("NCHW")], [SAME, ToLayout("channels_last")]])
def test_layouts(
    path: Path, pixels: np.ndarray, layout: Any, shape: tuple[int, ...], first: tuple[int, ...], before: list[Any]
) -> None:
    found = load(path, *before, ToLayout(layout))
    assert found.shape == shape
    np.testing.assert_array_equal(found, pixels.transpose(first))
    in_memory = found.transpose(0, 2, 3, 1) if layout == "channels_last" else found
    assert in_memory.flags.c_contiguous


def test_layout_of_what_is_no_batch_of_pictures() -> None:
    with pytest.raises(ValueError, match=r"batch of pictures, and gets an array of shape \(2, 3\)"):
        ToLayout("NCHW").apply(np.zeros((2, 3)), draws(2))


@pytest.mark.parametrize("dtype", ["uint8", "float16", "float32", "float64", "int32", "int16"])
@pytest.mark.parametrize("before", [[], [SAME]])
def test_another_dtype_keeps_the_values(path: Path, pixels: np.ndarray, dtype: str, before: list[Any]) -> None:
    found = load(path, *before, ToDtype(dtype))
    assert found.dtype == dtype
    np.testing.assert_array_equal(found, pixels)


def test_dtypes_may_be_given_as_numpy_has_them() -> None:
    assert ToDtype(np.float32) == ToDtype("float32") == ToDtype("f4")
    assert Normalize(MEAN, STD, np.float16) == Normalize(np.array(MEAN), STD, "float16")


def test_normalize_twice(path: Path, pixels: np.ndarray) -> None:
    found = load(path, Normalize(MEAN, STD), Normalize([1, 2, 3], [2, 2, 2]))
    np.testing.assert_allclose(found, ((pixels - MEAN) / np.array(STD) - [1, 2, 3]) / 2, atol=1e-5)
