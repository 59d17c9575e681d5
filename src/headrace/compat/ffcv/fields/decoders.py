"""All decoders."""

from headrace.compat.ffcv.fields.basics import FloatDecoder, IntDecoder
from headrace.compat.ffcv.fields.bytes import BytesDecoder
from headrace.compat.ffcv.fields.ndarray import NDArrayDecoder
from headrace.compat.ffcv.fields.rgb_image import (
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
