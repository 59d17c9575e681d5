"""Where bytes are: files mapped for reading, files that appear only when they are complete, plain memory."""

from penstock.storage.atomic import AtomicFile
from penstock.storage.local import check_mapping, map_file, mapping_faults
from penstock.storage.memory import allocate_pages, available_bytes

__all__ = [
    "AtomicFile",
    "allocate_pages",
    "available_bytes",
    "check_mapping",
    "map_file",
    "mapping_faults",
]
