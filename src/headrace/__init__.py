"""headrace: training data on disk. Pack it once, open any format, load it fast, know that it is intact."""

from headrace import errors, ops
from headrace.fields import Bytes, Float, Image, Int, Json, NDArray, Tensor, Text
from headrace.formats import index, pack, verify, write
from headrace.formats import open_dataset as open
from headrace.formats.beton import BetonWriter
from headrace.loader import Loader
from headrace.progress import ProgressBar
from headrace.types import Dataset, Sample

__all__ = [
    "BetonWriter",
    "Bytes",
    "Dataset",
    "Float",
    "Image",
    "Int",
    "Json",
    "Loader",
    "NDArray",
    "ProgressBar",
    "Sample",
    "Tensor",
    "Text",
    "errors",
    "index",
    "open",
    "ops",
    "pack",
    "verify",
    "write",
]


def __getattr__(name: str) -> str:
    if name == "__version__":
        from importlib.metadata import version

        return version("headrace")
    raise AttributeError(f"module 'headrace' has no attribute {name!r}")
