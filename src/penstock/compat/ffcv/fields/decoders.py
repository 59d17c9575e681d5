"""All decoders."""

from penstock.compat.ffcv.fields.basics import FloatDecoder, IntDecoder
from penstock.compat.ffcv.fields.bytes import BytesDecoder
from penstock.compat.ffcv.fields.ndarray import NDArrayDecoder
from penstock.compat.ffcv.fields.rgb_image import (
    CenterCropRGBImageDecoder,
    RandomResizedCropRGBImageDecoder,
    SimpleRGBImageDecoder,
)

__all__ = [
    "BytesDecoder",
    "CenterCropRGBImageDecoder",
    "FloatDecoder",
    "IntDecoder",
    "NDArrayDecoder",
    "RandomResizedCropRGBImageDecoder",
    "SimpleRGBImageDecoder",
]
