"""The .beton format: FFCV's files, both ways."""

from headrace.formats.beton.index import index_beton
from headrace.formats.beton.layout import columns_for, looks_like_beton
from headrace.formats.beton.reader import BetonDataset
from headrace.formats.beton.summary import summarize_beton
from headrace.formats.beton.writer import BetonWriter
from headrace.formats.contract import Format

__all__ = ["FORMAT", "BetonDataset", "BetonWriter"]

FORMAT = Format(
    name="beton",
    suffixes=(".beton",),
    matches=looks_like_beton,
    open=BetonDataset,
    create=BetonWriter,
    writer_options=frozenset({"annex", "class_names", "jpeg_index", "metadata", "page_size"}),
    check_fields=columns_for,
    holds_picture_files=False,
    has_files_beside=True,
    reads_stores=True,
    summarize=summarize_beton,
    index=index_beton,
)
