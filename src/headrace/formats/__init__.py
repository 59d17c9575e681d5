"""One module or folder for each format, and the verbs that work on all of them."""

from headrace.formats.converting import convert
from headrace.formats.indexing import index
from headrace.formats.opening import open_dataset
from headrace.formats.packing import pack
from headrace.formats.verifying import verify
from headrace.formats.writing import write

__all__ = ["convert", "index", "open_dataset", "pack", "verify", "write"]
