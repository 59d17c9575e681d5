"""The .ffr format: FFRecord's files, both ways."""

from penstock.formats.base import Format
from penstock.formats.ffr.dataset import FfrDataset
from penstock.formats.ffr.dataset_writer import FfrDatasetWriter
from penstock.formats.ffr.layout import is_ffr_folder
from penstock.formats.ffr.packed import PackedFolder, pack_folder
from penstock.formats.ffr.reader import FfrReader
from penstock.formats.ffr.writer import FfrWriter

__all__ = ["FORMAT", "FfrDataset", "FfrReader", "FfrWriter", "PackedFolder", "pack_folder"]

FORMAT = Format(
    name="ffr",
    suffixes=(".ffr",),
    matches=is_ffr_folder,
    open=FfrDataset,
    create=FfrDatasetWriter,
    pack=pack_folder,
)
