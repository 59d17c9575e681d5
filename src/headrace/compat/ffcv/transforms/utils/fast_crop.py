"""Crops of single pictures, for transforms of a user's own; compiled where numba is installed, as FFCV has them."""

from __future__ import annotations

from typing import Any

from headrace.compat.ffcv import libffcv
from headrace.compat.ffcv.fields import rgb_image
from headrace.compat.ffcv.pipeline.compiler import find_numba
from headrace.compat.passed_on import pass_on

__all__ = ["get_center_crop", "get_random_crop", "resize_crop"]
pass_on(globals(), "ctypes ctypes_resize njit np")


def _compiled(function: Any) -> Any:
    numba = find_numba()
    return function if numba is None else numba.njit(nogil=True, fastmath=True)(_form_of(function))


def _form_of(function: Any) -> Any:
    return getattr(function, "for_numba", None) or function


def _center_crop(height: Any, width: Any, ratio: Any) -> tuple[int, int, int, int]:
    """Top, left, height and width of the middle square."""
    side = int(ratio * min(height, width))
    return (height - side) // 2, (width - side) // 2, side, side


get_center_crop = _compiled(_center_crop)
get_random_crop = _compiled(rgb_image.get_random_crop)
resize_crop = _compiled(libffcv.resize_crop)
