"""The tar format: WebDataset's shards and tars of plain files, compressed or not, both ways."""

from functools import partial

from headrace.formats.contract import Format
from headrace.formats.decodes import DECODES
from headrace.formats.spans import index_spans
from headrace.formats.tar.dataset import TarDataset
from headrace.formats.tar.writer import TarWriter

__all__ = ["FORMAT", "TarDataset", "TarWriter"]

_MAGIC, _MAGIC_AT = b"ustar", 257


def _is_tar(path: str, head: bytes) -> bool:
    return head[_MAGIC_AT:].startswith(_MAGIC)


FORMAT = Format(
    name="tar",
    suffixes=(".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz", ".tar.zst", ".tzst"),
    matches=_is_tar,
    open=TarDataset,
    create=TarWriter,
    writer_options=frozenset({"class_names", "metadata", "annex", "jpeg_index"}),
    decodes=DECODES,
    has_files_beside=True,
    reads_stores=True,
    holds_files=True,
    index=partial(index_spans, TarDataset, is_one_pass=True),
)
