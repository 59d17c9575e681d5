"""One module or folder for each format, and the verbs that work on all of them."""

from headrace.formats.index import index
from headrace.formats.open import open_dataset
from headrace.formats.pack import pack
from headrace.formats.repair import repair
from headrace.formats.verify import verify
from headrace.formats.write import write

__all__ = ["index", "open_dataset", "pack", "repair", "verify", "write"]
