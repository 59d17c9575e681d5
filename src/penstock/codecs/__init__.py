"""Bytes to arrays and back: JPEG by the native core, other pictures by Pillow."""

from penstock.codecs import image, jpeg

__all__ = ["image", "jpeg"]
