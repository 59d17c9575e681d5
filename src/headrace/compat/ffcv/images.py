"""Pictures through headrace's native call, with the pixels that FFCV has: fast DCT, fancy upsampling, INTER_AREA."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from headrace._native import LoadOptions
from headrace.errors import CorruptSampleError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace._native import ImageLoader
    from headrace.types import ImageSpans

__all__ = ["load_images", "load_options"]


def load_options(table: npt.NDArray[Any] | None = None) -> LoadOptions:
    """How pictures are made; where there is a table [3][256], by channel and value, they are its entries."""
    return LoadOptions(interpolation="opencv_area", fast_dct=True, table=table)


_USUAL = load_options()


def load_images(
    native: ImageLoader,
    spans: ImageSpans,
    crops: npt.NDArray[np.int32] | None,
    out: npt.NDArray[Any],
    indices: Any,
    *,
    flips: npt.NDArray[np.uint8] | None = None,
    steps: Sequence[tuple[str, npt.NDArray[np.float32]]] = (),
    options: LoadOptions = _USUAL,
) -> None:
    """Decode, perhaps crop, and resize pictures into ``out`` (batch, height, width, 3); an error names the sample."""
    if crops is not None:
        _check_crops(spans, crops, indices)
        crops = np.ascontiguousarray(crops, np.int32)
    report = native.load(spans, crops, flips, out, options, steps)
    if report.failures:
        failure = report.failures[0]
        raise CorruptSampleError(
            "dataset",
            sample=int(indices[failure.position]),
            problem=f"the picture cannot be decoded ({failure.detail})",
            fix="Restore the file from a copy, or leave the sample out.",
        )


def _check_crops(spans: ImageSpans, crops: npt.NDArray[np.int32], indices: Any) -> None:
    top, left, height, width = crops.astype(np.int64).T
    is_empty = (height < 1) | (width < 1)
    is_outside = (top < 0) | (left < 0) | (top + height > spans.heights) | (left + width > spans.widths)
    bad = np.flatnonzero(is_empty | is_outside)
    if len(bad):
        i = int(bad[0])
        raise ValueError(
            f"sample {int(indices[i])}: the crop of a picture of {spans.widths[i]}x{spans.heights[i]} pixels is "
            f"{'empty' if is_empty[i] else 'not inside it'} (top {top[i]}, left {left[i]}, {width[i]}x{height[i]})"
        )
