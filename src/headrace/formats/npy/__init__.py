"""The formats of NumPy: .npy, one array, and .npz, several in a zip."""

from headrace.fields import KINDS
from headrace.formats.contract import Format
from headrace.formats.npy.dataset import NpyDataset, index_npz
from headrace.formats.npy.header import MAGIC
from headrace.formats.npy.writer import NpyWriter, NpzWriter

__all__ = ["FORMAT", "NPZ", "NpyDataset", "NpyWriter", "NpzWriter"]

FORMAT = Format(
    name="npy",
    suffixes=(".npy",),
    matches=lambda path, head: head.startswith(MAGIC),
    open=NpyDataset,
    create=NpyWriter,
    max_fields=1,
    field_kinds=frozenset({"int", "float", "ndarray", "tensor"}),
    holds_names=False,
    has_files_beside=True,
    reads_stores=True,
    index=index_npz,
)
NPZ = Format(
    name="npz",
    suffixes=(".npz",),
    matches=lambda path, head: head.startswith(b"PK\x03\x04") and b".npy" in head[30:300],
    open=NpyDataset,
    create=NpzWriter,
    writer_options=frozenset({"class_names", "compressed", "metadata"}),
    field_kinds=KINDS,
    has_files_beside=True,
    reads_stores=True,
    index=index_npz,
)
