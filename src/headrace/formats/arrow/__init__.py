"""The formats of Apache Arrow: Parquet, Arrow files and streams, Feather, and folders of Hugging Face."""

from __future__ import annotations

import os

from headrace.fields import KINDS
from headrace.formats.arrow.dataset import ArrowDataset, ParquetDataset, index_arrow, index_parquet
from headrace.formats.arrow.huggingface import is_saved_folder
from headrace.formats.arrow.ipc_parts import FEATHER_1, FILE_MAGIC, STREAM_MAGIC
from headrace.formats.arrow.parquet_parts import ENCRYPTED_MAGIC, MAGIC
from headrace.formats.arrow.writer import ArrowWriter, ParquetWriter, check_fields
from headrace.formats.contract import Format
from headrace.formats.decodes import DECODES
from headrace.storage import stored_size

__all__ = ["ARROW", "PARQUET", "ArrowDataset", "ArrowWriter", "ParquetDataset", "ParquetWriter"]

_LARGEST_SCHEMA = 1 << 24


def _is_arrow(path: str, head: bytes) -> bool:
    if os.path.isdir(path):
        return is_saved_folder(path)
    is_stream = head.startswith(STREAM_MAGIC) and 0 < int.from_bytes(head[4:8], "little") < _LARGEST_SCHEMA
    return is_stream or head.startswith((FILE_MAGIC, FEATHER_1))


def _size_bytes(path: str) -> int:
    if not os.path.isdir(path):
        return stored_size(path)
    with os.scandir(path) as entries:
        return sum(entry.stat(follow_symlinks=False).st_size for entry in entries)


PARQUET = Format(
    name="parquet",
    suffixes=(".parquet",),
    matches=lambda path, head: head.startswith((MAGIC, ENCRYPTED_MAGIC)),
    open=ParquetDataset,
    create=ParquetWriter,
    writer_options=frozenset({"class_names", "metadata", "row_group_size", "compression"}),
    field_kinds=KINDS,
    check_fields=check_fields,
    decodes=DECODES,
    has_files_beside=True,
    has_cache=True,
    reads_stores=True,
    index=index_parquet,
)

ARROW = Format(
    name="arrow",
    suffixes=(".arrow", ".feather"),
    matches=_is_arrow,
    open=ArrowDataset,
    create=ArrowWriter,
    writer_options=frozenset({"class_names", "metadata"}),
    field_kinds=KINDS,
    check_fields=check_fields,
    decodes=DECODES,
    has_files_beside=True,
    has_cache=True,
    reads_stores=True,
    size_bytes=_size_bytes,
    index=index_arrow,
)
