"""headrace: training data on disk. Pack it once, open any format, load it fast, know that it is intact."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace import errors, ops
    from headrace.fields import Bytes, Float, Image, Int, Json, NDArray, Tensor, Text
    from headrace.formats.barecat import Archive
    from headrace.formats.beton import BetonWriter
    from headrace.formats.index import index
    from headrace.formats.open import open_dataset as open
    from headrace.formats.pack import pack
    from headrace.formats.repair import repair
    from headrace.formats.sets import concat, mix, subset, zip_fields
    from headrace.formats.verify import verify
    from headrace.formats.write import write
    from headrace.frameworks.ray import to_ray
    from headrace.loader import Loader
    from headrace.loader.diagnosis import diagnose
    from headrace.transfer.convert import convert
    from headrace.types import Batch, Dataset, Sample
    from headrace.viewer.server import view

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
    "concat",
    "convert",
    "diagnose",
    "errors",
    "index",
    "mix",
    "open",
    "ops",
    "pack",
    "repair",
    "subset",
    "to_ray",
    "verify",
    "view",
    "write",
    "zip_fields",
]

_PLACES = {
    "headrace": ("errors", "fields", "formats", "frameworks", "loader", "ops", "types"),
    "headrace.fields": ("Bytes", "Float", "Image", "Int", "Json", "NDArray", "Tensor", "Text"),
    "headrace.formats.barecat": ("Archive",),
    "headrace.formats.beton": ("BetonWriter",),
    "headrace.formats.index": ("index",),
    "headrace.formats.open": ("open",),
    "headrace.formats.pack": ("pack",),
    "headrace.formats.repair": ("repair",),
    "headrace.formats.sets": ("concat", "mix", "subset", "zip_fields"),
    "headrace.formats.verify": ("verify",),
    "headrace.formats.write": ("write",),
    "headrace.frameworks.ray": ("to_ray",),
    "headrace.loader": ("Loader",),
    "headrace.loader.diagnosis": ("diagnose",),
    "headrace.transfer.convert": ("convert",),
    "headrace.types": ("Batch", "Dataset", "Sample"),
    "headrace.viewer.server": ("view",),
}
"""Where the names are. Each is imported when it is first used, so that to import headrace takes next to no time."""


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name == "__version__":
        return import_module("importlib.metadata").version("headrace")
    place = next((place for place, names in _PLACES.items() if name in names), None)
    if place is None:
        raise AttributeError(f"module 'headrace' has no attribute {name!r}")
    if place == "headrace":
        return import_module(f"headrace.{name}")
    value = globals()[name] = getattr(import_module(place), "open_dataset" if name == "open" else name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
