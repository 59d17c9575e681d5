"""headrace: training data on disk. Pack it once, open any format, load it fast, know that it is intact."""

from typing import TYPE_CHECKING

from headrace import errors, ops
from headrace.fields import Bytes, Float, Image, Int, Json, NDArray, Tensor, Text
from headrace.formats import index, pack, repair, verify, write
from headrace.formats import open_dataset as open
from headrace.formats.beton import BetonWriter
from headrace.loader import Loader
from headrace.types import Batch, Dataset, Sample

if TYPE_CHECKING:
    from headrace.formats.barecat import Archive
    from headrace.transfer.convert import convert

__all__ = [
    "Archive",
    "Batch",
    "BetonWriter",
    "Bytes",
    "Dataset",
    "Float",
    "Image",
    "Int",
    "Json",
    "Loader",
    "NDArray",
    "Sample",
    "Tensor",
    "Text",
    "convert",
    "errors",
    "index",
    "open",
    "ops",
    "pack",
    "repair",
    "verify",
    "write",
]

_LATE = {"Archive": "headrace.formats.barecat", "convert": "headrace.transfer.convert"}
"""What brings SQLite, tar and zip along is imported when it is first used."""


def __getattr__(name: str) -> object:
    if name == "__version__":
        from importlib.metadata import version

        return version("headrace")
    if name in _LATE:
        from importlib import import_module

        value = globals()[name] = getattr(import_module(_LATE[name]), name)
        return value
    raise AttributeError(f"module 'headrace' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_LATE])
