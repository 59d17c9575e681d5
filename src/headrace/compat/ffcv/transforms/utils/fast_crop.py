"""Crops of single pictures, for transforms of a user's own."""

from __future__ import annotations

from typing import Any

from headrace.compat.ffcv.fields import rgb_image
from headrace.compat.ffcv.fields.rgb_image import get_random_crop
from headrace.compat.ffcv.libffcv import resize_crop

__all__ = ["get_center_crop", "get_random_crop", "resize_crop"]


def get_center_crop(height: Any, width: Any, ratio: Any) -> tuple[int, int, int, int]:
    """Top, left, height and width of the middle square."""
    return rgb_image.get_center_crop(height, width, None, ratio)
