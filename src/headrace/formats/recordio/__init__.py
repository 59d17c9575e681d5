"""The RecordIO format of dmlc and MXNet (``.rec``, with or without ``.idx``), both ways.

A record is a magic number, a word with its length and whether it is a part of a record, the data, and zeros up to the
next multiple of 4; see ``native/include/headrace/formats/recordio.hpp``. Data of MXNet begin with a header of 24 bytes:
the number of labels that follow (u32), a label (f32), the number of the sample (u64), and another (u64).
"""

from functools import partial

from headrace.formats.contract import Format
from headrace.formats.decodes import DECODES
from headrace.formats.recordio.dataset import RecordioDataset
from headrace.formats.recordio.writer import RecordioWriter, check_fields
from headrace.formats.spans import index_spans

__all__ = ["FORMAT", "RecordioDataset", "RecordioWriter"]

_MAGIC = b"\x0a\x23\xd7\xce"

FORMAT = Format(
    name="recordio",
    suffixes=(".rec",),
    matches=lambda path, head: head.startswith(_MAGIC),
    open=RecordioDataset,
    create=RecordioWriter,
    writer_options=frozenset({"class_names", "metadata", "annex", "jpeg_index"}),
    max_fields=3,
    check_fields=check_fields,
    holds_raw_pictures=False,
    decodes=DECODES,
    has_files_beside=True,
    reads_stores=True,
    index=partial(index_spans, RecordioDataset),
)
