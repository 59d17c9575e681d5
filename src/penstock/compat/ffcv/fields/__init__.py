"""All fields."""

from penstock.compat.ffcv.fields.base import Field
from penstock.compat.ffcv.fields.basics import FloatField, IntField
from penstock.compat.ffcv.fields.bytes import BytesField
from penstock.compat.ffcv.fields.json import JSONField
from penstock.compat.ffcv.fields.ndarray import NDArrayField, TorchTensorField
from penstock.compat.ffcv.fields.rgb_image import RGBImageField

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
