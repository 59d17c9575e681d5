"""The LMDB format: a file, or a folder with a data.mdb, whose keys are the names of samples."""

import os

from headrace.fields import KINDS_OF_BYTES
from headrace.formats.contract import Format
from headrace.formats.decodes import DECODES
from headrace.formats.lmdb.dataset import DATA_FILE, LmdbDataset, data_file, index_lmdb, open_lmdb
from headrace.formats.lmdb.tree import MAGIC
from headrace.formats.lmdb.writer import LmdbWriter

__all__ = ["FORMAT", "LmdbDataset", "LmdbWriter"]


def _matches(path: str, head: bytes) -> bool:
    if os.path.isdir(path):
        return os.path.isfile(os.path.join(path, DATA_FILE))
    return head[16:20] == MAGIC.to_bytes(4, "little")


FORMAT = Format(
    name="lmdb",
    suffixes=(".lmdb",),
    matches=_matches,
    open=open_lmdb,
    create=LmdbWriter,
    max_fields=1,
    field_kinds=KINDS_OF_BYTES,
    decodes=DECODES,
    has_files_beside=True,
    size_bytes=lambda path: os.path.getsize(data_file(path)),
    index=index_lmdb,
)
