"""The .barecat format: archives of many files with an SQLite index, both ways."""

from headrace.formats.barecat.archive import Archive
from headrace.formats.barecat.dataset import BarecatDataset, verify_path
from headrace.formats.barecat.decoded import Codec, DecodedView
from headrace.formats.barecat.edit.handover import remove_archive
from headrace.formats.barecat.index.rows import DirInfo, FileInfo, Metadata
from headrace.formats.barecat.names import archive_exists, looks_like_barecat
from headrace.formats.barecat.pack import pack_archive
from headrace.formats.barecat.writer import BarecatWriter
from headrace.formats.contract import Format

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
