"""The .barecat format: archives of many files with an SQLite index, both ways."""

from penstock.formats.barecat.archive import Archive
from penstock.formats.barecat.converting import convert, pack_archive
from penstock.formats.barecat.dataset import BarecatDataset, verify_path
from penstock.formats.barecat.decoded import Codec, DecodedView
from penstock.formats.barecat.handover import remove_archive
from penstock.formats.barecat.names import archive_exists, looks_like_barecat
from penstock.formats.barecat.rows import DirInfo, FileInfo, Metadata
from penstock.formats.barecat.writer import BarecatWriter
from penstock.formats.base import Format

__all__ = [
    "FORMAT",
    "Archive",
    "BarecatDataset",
    "BarecatWriter",
    "Codec",
    "DecodedView",
    "DirInfo",
    "FileInfo",
    "Metadata",
    "convert",
    "remove_archive",
]

FORMAT = Format(
    name="barecat",
    suffixes=(".barecat", ".barecat-sqlite-index"),
    matches=looks_like_barecat,
    open=BarecatDataset,
    create=BarecatWriter,
    pack=pack_archive,
    verify=verify_path,
    exists=archive_exists,
)
