"""The TFRecord format: records of any bytes, most of them tf.train.Examples; both ways, without TensorFlow.

Each record is a u64 length, the masked CRC-32C of these 8 bytes, the data, and the masked CRC-32C of the data. The
mask turns the checksum right by 15 bits and adds 0xA282EAD8. There is no header and no index.
"""

import os
import re
from functools import partial

from headrace.formats.contract import Format
from headrace.formats.decodes import DECODES
from headrace.formats.spans import index_spans
from headrace.formats.tfrecord.dataset import TfrecordDataset
from headrace.formats.tfrecord.packing import unpacked_head
from headrace.formats.tfrecord.scan import is_head
from headrace.formats.tfrecord.writer import TfrecordWriter

__all__ = ["FORMAT", "TfrecordDataset", "TfrecordWriter"]

_NAME = re.compile(r"\.tfrecords?(-\d+-of-\d+)?(\.gz)?$", re.IGNORECASE)


def _matches(path: str, head: bytes) -> bool:
    """The first bytes are a length and its checksum, perhaps compressed; or the name says it, of an empty file."""
    if not head:
        return bool(_NAME.search(path)) and os.path.isfile(path)
    return is_head(head) or is_head(unpacked_head(head) or b"")


FORMAT = Format(
    name="tfrecord",
    suffixes=(".tfrecord", ".tfrecords", ".tfrecord.gz", ".tfrecords.gz"),
    matches=_matches,
    open=TfrecordDataset,
    create=TfrecordWriter,
    writer_options=frozenset({"class_names", "metadata", "annex", "jpeg_index"}),
    holds_raw_pictures=False,
    decodes=DECODES,
    has_files_beside=True,
    reads_stores=True,
    index=partial(index_spans, TfrecordDataset, is_one_pass=True),
)
