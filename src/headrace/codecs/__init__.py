"""Bytes to arrays and back: JPEG, PNG and WebP by the native core, other pictures by Pillow, arrays by numpy."""

from headrace.codecs import image, jpeg, npy

__all__ = ["image", "jpeg", "npy"]
