"""The HDF5 format: every dataset with one row for each sample is a field."""

from headrace.fields import KINDS
from headrace.formats.contract import Format
from headrace.formats.decodes import DECODES
from headrace.formats.hdf5.dataset import Hdf5Dataset, index_hdf5, open_hdf5
from headrace.formats.hdf5.writer import Hdf5Writer, check_fields

__all__ = ["FORMAT", "Hdf5Dataset", "Hdf5Writer"]

_MAGIC = b"\x89HDF\r\n\x1a\n"
_PLACES = (0, 512, 1024, 2048)  # whoever makes a file may leave space for something else before it

FORMAT = Format(
    name="hdf5",
    suffixes=(".h5", ".hdf5"),
    matches=lambda path, head: any(head.startswith(_MAGIC, at) for at in _PLACES),
    open=open_hdf5,
    create=Hdf5Writer,
    writer_options=frozenset({"class_names", "metadata", "compression"}),
    field_kinds=KINDS,
    check_fields=check_fields,
    decodes=DECODES,
    has_files_beside=True,
    has_cache=True,
    index=index_hdf5,
)
