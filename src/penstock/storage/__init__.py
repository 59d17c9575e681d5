"""Where bytes are: files mapped for reading, files that appear only when they are complete."""

from penstock.storage.atomic import AtomicFile
from penstock.storage.local import map_file

__all__ = ["AtomicFile", "map_file"]
