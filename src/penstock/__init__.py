"""penstock: training data on disk. Pack it once, open any format, load it fast, know that it is intact."""

from penstock import errors, ops
from penstock.fields import Bytes, Float, Image, Int, Json, NDArray, Tensor, Text
from penstock.formats import index, pack, verify, write
from penstock.formats import open_dataset as open
from penstock.formats.beton import BetonWriter
from penstock.loader import Loader
from penstock.progress import ProgressBar
from penstock.types import Dataset, Sample

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

        return version("penstock")
    raise AttributeError(f"module 'penstock' has no attribute {name!r}")
