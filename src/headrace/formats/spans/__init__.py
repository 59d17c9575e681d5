"""What formats share whose values lie in a file as spans of bytes: reading, the index that is kept, the dataset."""

from headrace.formats.spans.indexed_file import IndexedFile
from headrace.formats.spans.new_annex import NewAnnex
from headrace.formats.spans.sample_index import SampleIndex
from headrace.formats.spans.span_annex import index_spans, write_span_annex
from headrace.formats.spans.span_dataset import SpanDataset
from headrace.formats.spans.span_file import SpanFile
from headrace.formats.spans.span_options import SpanOptions, fill_options
from headrace.formats.spans.span_writer import AnnexOptions, SpanWriter
from headrace.formats.spans.unpacked import unpack

__all__ = [
    "AnnexOptions",
    "IndexedFile",
    "NewAnnex",
    "SampleIndex",
    "SpanDataset",
    "SpanFile",
    "SpanOptions",
    "SpanWriter",
    "fill_options",
    "index_spans",
    "unpack",
    "write_span_annex",
]
