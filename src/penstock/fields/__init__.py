"""What a column is: how a value is encoded when written, and what comes back when it is read."""

from penstock.fields.arrays import NDArray, Tensor, dtype_from_text
from penstock.fields.binary import Bytes, Json, Text
from penstock.fields.image import JPG, RAW, Image
from penstock.fields.scalars import Float, Int
from penstock.fields.spec import from_spec, to_spec

__all__ = [
    "JPG",
    "RAW",
    "Bytes",
    "Float",
    "Image",
    "Int",
    "Json",
    "NDArray",
    "Tensor",
    "Text",
    "dtype_from_text",
    "from_spec",
    "to_spec",
]
