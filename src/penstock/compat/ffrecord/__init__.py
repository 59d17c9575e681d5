"""FFRecord's module tree over penstock; only ``ffrecord.torch`` needs torch."""

from penstock.compat.ffrecord.fileio import FileReader, FileWriter, checkFsAlign
from penstock.compat.ffrecord.package import PackedFolder, pack_folder

__all__ = ["FileReader", "FileWriter", "PackedFolder", "checkFsAlign", "pack_folder"]
__version__ = "1.4.0"
