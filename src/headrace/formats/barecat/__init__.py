"""The .barecat format: archives of many files with an SQLite index, both ways."""

from headrace.codecs.decoded import Codec, DecodedView
from headrace.formats.barecat.archive import Archive, new_archive
from headrace.formats.barecat.dataset import BarecatDataset, index_archive, verify_path
from headrace.formats.barecat.edit.handover import remove_archive
from headrace.formats.barecat.edit.repair import repair_archive
from headrace.formats.barecat.index.rows import DirInfo, FileInfo
from headrace.formats.barecat.names import archive_exists, looks_like_barecat
from headrace.formats.barecat.pack import pack_archive
from headrace.formats.barecat.summary import archive_size_bytes, summarize_archive
from headrace.formats.barecat.writer import BarecatWriter
from headrace.formats.contract import Format
from headrace.formats.metadata import Metadata
from headrace.formats.sample_files import check_file_fields

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
    writer_options=frozenset({"annex", "class_names", "shard_size"}),
    check_fields=check_file_fields,
    decodes=("bytes",),
    has_files_beside=True,
    reads_stores=True,
    holds_files=True,
    pack=pack_archive,
    pack_options=frozenset({"dry_run", "shard_size"}),
    open_archive=Archive,
    new_archive=new_archive,
    exists=archive_exists,
    size_bytes=archive_size_bytes,
    summarize=summarize_archive,
    verify=verify_path,
    index=index_archive,
    index_has_checksums=False,
    repair=repair_archive,
)
