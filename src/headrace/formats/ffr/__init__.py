"""The .ffr format: FFRecord's files, both ways."""

from headrace.fields import KINDS_OF_BYTES
from headrace.formats.contract import Format
from headrace.formats.decodes import DECODES
from headrace.formats.ffr.dataset import FfrDataset, index_ffr
from headrace.formats.ffr.dataset_writer import FfrDatasetWriter
from headrace.formats.ffr.layout import is_ffr_folder
from headrace.formats.ffr.packed import PackedFolder, pack_folder
from headrace.formats.ffr.reader import FfrReader
from headrace.formats.ffr.summary import summarize_ffr
from headrace.formats.ffr.writer import FfrWriter

__all__ = ["FORMAT", "FfrDataset", "FfrReader", "FfrWriter", "PackedFolder", "pack_folder"]

FORMAT = Format(
    name="ffr",
    suffixes=(".ffr",),
    matches=is_ffr_folder,
    open=FfrDataset,
    create=FfrDatasetWriter,
    writer_options=frozenset({"annex"}),
    max_fields=1,
    field_kinds=KINDS_OF_BYTES,
    holds_raw_pictures=False,
    holds_picture_files=False,
    decodes=DECODES,
    has_files_beside=True,
    reads_stores=True,
    takes_lists=True,
    pack=pack_folder,
    pack_options=frozenset({"dry_run"}),
    summarize=summarize_ffr,
    index=index_ffr,
)
