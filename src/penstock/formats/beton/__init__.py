"""The .beton format: FFCV's files, both ways."""

from penstock.formats.base import Format
from penstock.formats.beton.layout import looks_like_beton
from penstock.formats.beton.reader import BetonDataset
from penstock.formats.beton.writer import BetonWriter

__all__ = ["FORMAT", "BetonDataset", "BetonWriter"]

FORMAT = Format(
    name="beton",
    suffixes=(".beton",),
    matches=looks_like_beton,
    open=BetonDataset,
    create=BetonWriter,
)
