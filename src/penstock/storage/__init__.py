"""Where bytes are: files mapped for reading, files that appear only when they are complete."""

from penstock.storage.atomic import AtomicFile
from penstock.storage.local import check_mapping, map_file, mapping_faults

__all__ = ["AtomicFile", "check_mapping", "map_file", "mapping_faults"]
