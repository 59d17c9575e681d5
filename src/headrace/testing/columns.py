"""Values of every kind of field, with the odd ones among them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace.codecs import jpeg
from headrace.fields import Bytes, Float, Image, Int, Json, NDArray, Tensor, Text

if TYPE_CHECKING:
    import numpy.typing as npt

    from headrace.types import Field

__all__ = ["CLASSES", "SampleColumn", "picture_of", "sample_columns"]

CLASSES = ["apple", "bread", "cheese"]
"""Names of the classes of the field ``label``."""
_NUMBERS = [0, 1, -1, 2**63 - 1, -(2**63), 255, 256, -129, 10**12]
_REALS = [0.0, -0.0, 1 / 3, -1e300, 5e-324, float("inf"), 2.0**53]
_SHORT_REALS = [0.0, -0.0, 0.75, -(2.0**100), 2.0**-140, float("inf"), 2.0**24]
_TEXTS = ["", "plain", "zwölf Boxkämpfer", "π ≈ 3.14159", "two\nlines", 'tab\tand \\ and "', "🎈" * 20, " space "]
_JSONS: list[Any] = [None, True, 7, "text", [], {}, {"a": [1, 2.5, {"b": None}]}, {"key with é": "ü"}, [[], [[]]]]


@dataclass(frozen=True, slots=True)
class SampleColumn:
    """A field, values to write, and what must come back where that is something else."""

    field: Field
    values: list[Any]
    decoded: list[Any]


def picture_of(seed: int, height: int, width: int) -> npt.NDArray[np.uint8]:
    """Smooth colours with an edge and a little noise, the same for the same seed."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0:height, 0:width].astype(float)
    waves = [np.cos(y * rng.uniform(0, 0.2) + x * rng.uniform(0, 0.2) + channel) for channel in range(3)]
    pixels = 128 + 80 * np.stack(waves, axis=2) + rng.normal(0, 4, (height, width, 1))
    pixels[: height // 3, : width // 2] += 40
    return np.clip(pixels, 0, 255).astype(np.uint8)


def _cycle(values: list[Any], count: int) -> list[Any]:
    return [values[i % len(values)] for i in range(count)]


def _blobs(count: int) -> list[bytes]:
    rng = np.random.default_rng(5)
    sizes = _cycle([0, 1, 17, 4096, 70_000, 300], count)
    return [b"\0" * 9 if i == 3 else rng.bytes(size) for i, size in enumerate(sizes)]


def sample_columns(count: int = 12, *, float_bits: int = 64) -> dict[str, SampleColumn]:
    """A column of every kind, by name.

    ``label`` never goes down, so that formats that sort samples by their class keep the order.

    Args:
        count: number of samples.
        float_bits: 32 where a format keeps no more of a Float.

    Example:
        >>> sorted(sample_columns(3))[:3], sample_columns(3)["label"].values
        (['array', 'big_endian', 'data'], [0, 1, 2])
    """
    rng = np.random.default_rng(4)
    files = [jpeg.encode(picture_of(i, 24 + i % 5, 40 - i % 7), quality=85) for i in range(count)]
    pixels = [picture_of(100 + i, 9 + i % 4, 12) for i in range(count)]
    columns: dict[str, tuple[Field, list[Any]]] = {
        "data": (Bytes(), _blobs(count)),
        "text": (Text(), _cycle(_TEXTS, count)),
        "json": (Json(), _cycle(_JSONS, count)),
        "pixels": (Image(mode="raw"), pixels),
        "array": (NDArray("float32", (2, 3)), list(rng.random((count, 2, 3), np.float32))),
        "big_endian": (NDArray(">i4", (3,)), list(rng.integers(-9, 9, (count, 3)).astype(">i4"))),
        "tensor": (Tensor("int16", (2,)), list(rng.integers(-999, 999, (count, 2)).astype(np.int16))),
        "number": (Int(), _cycle(_NUMBERS, count)),
        "real": (Float(), _cycle(_REALS if float_bits == 64 else _SHORT_REALS, count)),
        "label": (Int(), [i * len(CLASSES) // count for i in range(count)]),
    }
    image = SampleColumn(Image(), files, [jpeg.decode(file) for file in files])
    return {"image": image} | {name: SampleColumn(field, values, values) for name, (field, values) in columns.items()}
