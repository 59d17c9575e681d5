"""One module or folder for each format, and the verbs that work on all of them."""

from penstock.formats.converting import convert
from penstock.formats.indexing import index
from penstock.formats.opening import open_dataset
from penstock.formats.packing import pack
from penstock.formats.verifying import verify
from penstock.formats.writing import write

__all__ = ["convert", "index", "open_dataset", "pack", "verify", "write"]
