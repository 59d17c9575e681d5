"""The TFRecord format: records of any bytes, most of them tf.train.Examples; both ways, without TensorFlow.

Each record is a u64 length, the masked CRC-32C of these 8 bytes, the data, and the masked CRC-32C of the data. The
mask turns the checksum right by 15 bits and adds 0xA282EAD8. There is no header and no index.
"""

import os
import re
import zlib
from functools import partial

from headrace import _native
from headrace.formats.contract import Format
from headrace.formats.decodes import DECODES
from headrace.formats.spans import index_spans
from headrace.formats.tfrecord.dataset import TfrecordDataset
from headrace.formats.tfrecord.writer import TfrecordWriter

__all__ = ["FORMAT", "TfrecordDataset", "TfrecordWriter"]

_NAME = re.compile(r"\.tfrecords?(-\d+-of-\d+)?(\.gz)?$", re.IGNORECASE)
_LENGTH_BYTES, _HEAD_BYTES = 8, 12


def _matches(path: str, head: bytes) -> bool:
    """The first bytes are a length and its checksum, perhaps compressed; or the name says it, of an empty file."""
    if not head:
        return bool(_NAME.search(path)) and os.path.isfile(path)
    if head.startswith(b"\x1f\x8b"):
        try:
            head = zlib.decompressobj(31).decompress(head, _HEAD_BYTES)
        except zlib.error:
            return False
    if len(head) < _HEAD_BYTES:
        return False
    checksum = _native.crc32c(head[:_LENGTH_BYTES])
    masked = ((checksum >> 15 | checksum << 17) + 0xA282EAD8) & 0xFFFFFFFF
    return masked == int.from_bytes(head[_LENGTH_BYTES:_HEAD_BYTES], "little")


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
    index=partial(index_spans, TfrecordDataset),
)
