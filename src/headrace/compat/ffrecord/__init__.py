"""FFRecord's module tree over headrace; only ``ffrecord.torch`` needs torch."""

from headrace.compat.ffrecord.fileio import FileReader, FileWriter, checkFsAlign
from headrace.compat.ffrecord.package import PackedFolder, pack_folder

__all__ = ["FileReader", "FileWriter", "PackedFolder", "checkFsAlign", "pack_folder"]
__version__ = "1.4.0"
