"""What a column is: how a value is encoded when written, and what comes back when it is read."""

from headrace.fields.arrays import NDArray, Tensor, dtype_from_text
from headrace.fields.binary import Bytes, Json, Text
from headrace.fields.image import JPG, RAW, Image
from headrace.fields.names import problem_with_name
from headrace.fields.scalars import Float, Int
from headrace.fields.spec import KINDS, KINDS_OF_BYTES, from_spec, to_spec

__all__ = [
    "JPG",
    "KINDS",
    "KINDS_OF_BYTES",
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
    "problem_with_name",
    "to_spec",
]
