"""All fields."""

from headrace.compat.ffcv.fields.base import Field
from headrace.compat.ffcv.fields.basics import FloatField, IntField
from headrace.compat.ffcv.fields.bytes import BytesField
from headrace.compat.ffcv.fields.json import JSONField
from headrace.compat.ffcv.fields.ndarray import NDArrayField, TorchTensorField
from headrace.compat.ffcv.fields.rgb_image import RGBImageField

__all__ = [
    "BytesField",
    "Field",
    "FloatField",
    "IntField",
    "JSONField",
    "NDArrayField",
    "RGBImageField",
    "TorchTensorField",
]
