"""MessagePack: a stream of maps, one for each sample, or of other values.

The layout is that of the MessagePack specification; values stand one after the other, without a header. Reading and
writing values that are neither numbers, texts nor bytes needs the ``msgpack`` package.
"""

from functools import partial

from headrace.fields import KINDS
from headrace.formats.contract import Format
from headrace.formats.decodes import DECODES
from headrace.formats.msgpack.dataset import MsgpackDataset
from headrace.formats.msgpack.writer import MAX_FIELDS, MsgpackWriter
from headrace.formats.spans import index_spans

__all__ = ["FORMAT", "MsgpackDataset", "MsgpackWriter"]

FORMAT = Format(
    name="msgpack",
    suffixes=(".msgpack", ".mpk"),
    matches=lambda path, head: False,
    open=MsgpackDataset,
    create=MsgpackWriter,
    writer_options=frozenset({"annex", "class_names", "jpeg_index", "metadata"}),
    max_fields=MAX_FIELDS,
    field_kinds=KINDS,
    decodes=DECODES,
    has_files_beside=True,
    reads_stores=True,
    index=partial(index_spans, MsgpackDataset),
)
