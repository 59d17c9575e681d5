"""The zip format: zips of plain files or of samples, both ways."""

from functools import partial

from headrace.formats.contract import Format
from headrace.formats.decodes import DECODES
from headrace.formats.spans import index_spans
from headrace.formats.zip.dataset import ZipDataset
from headrace.formats.zip.writer import ZipWriter

__all__ = ["FORMAT", "ZipDataset", "ZipWriter"]

FORMAT = Format(
    name="zip",
    suffixes=(".zip",),
    matches=lambda path, head: head.startswith((b"PK\3\4", b"PK\5\6")),
    open=ZipDataset,
    create=ZipWriter,
    writer_options=frozenset({"class_names", "metadata", "annex", "jpeg_index"}),
    decodes=DECODES,
    has_files_beside=True,
    reads_stores=True,
    holds_files=True,
    index=partial(index_spans, ZipDataset),
)
