"""Values as files that other programs open: what ``cat`` and ``extract`` write."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, NamedTuple

from headrace.codecs import npy
from headrace.codecs.jpeg import is_jpeg

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from headrace.types import Dataset

__all__ = ["ValueFile", "value_as_file"]


class ValueFile(NamedTuple):
    """The bytes of a file and the ending its name should have."""

    data: bytes
    suffix: str


def value_as_file(dataset: Dataset, index: int, field: str, *, stored: bool = False) -> ValueFile:
    """Turn one value into a file: JPEG as stored, raw pixels as PNG, arrays as npy, the rest as text or bytes."""
    kind = dataset.schema[field].kind
    if kind in ("int", "float"):
        return ValueFile(f"{dataset[index][field]}\n".encode(), ".txt")
    if kind == "image" or stored:
        (data,) = dataset.read_bytes([index], field)
        if stored:
            return ValueFile(data, ".bin")
        if is_jpeg(data):
            return ValueFile(data, ".jpg")
    value = dataset[index][field]
    match kind:
        case "image":
            return ValueFile(_png(value), ".png")
        case "json":
            return ValueFile((json.dumps(value, ensure_ascii=False) + "\n").encode(), ".json")
        case "text":
            return ValueFile(value.encode(), ".txt")
        case "ndarray" | "tensor":
            return ValueFile(npy.encode(value), ".npy")
        case _:
            return ValueFile(bytes(value), ".bin")


def _png(pixels: npt.NDArray[np.uint8]) -> bytes:
    from PIL import Image

    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "PNG", compress_level=1)
    return out.getvalue()
