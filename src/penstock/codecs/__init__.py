"""Bytes to arrays and back: JPEG by the native core, other pictures by Pillow, arrays by numpy."""

from penstock.codecs import image, jpeg, npy

__all__ = ["image", "jpeg", "npy"]
