"""The sections that say where the values of samples are, for files that do not say it themselves.

``columns``    JSON: ``format``, ``columns`` (names, in the order of the tables), ``fields`` (field to column) and
               ``facts`` (whatever the format must know besides).
``places``     columns u16, reserved u16 and u32, then num_samples x columns offsets u64, then as many sizes u64.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import numpy as np

from headrace.progress import format_count

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from headrace.annex.container import Annex
    from headrace.types import Buffer

__all__ = ["COLUMNS", "PLACES", "places_section", "read_places"]

COLUMNS, PLACES = "columns", "places"
_HEAD = struct.Struct("<HHI")


def places_section(offsets: npt.NDArray[np.uint64], sizes: npt.NDArray[np.uint64]) -> Iterator[Buffer]:
    """Make the bytes of ``places`` from two tables, samples x columns."""
    yield _HEAD.pack(offsets.shape[1], 0, 0)
    for table in (offsets, sizes):
        yield np.ascontiguousarray(table, "<u8").reshape(-1).view(np.uint8)


def read_places(annex: Annex, columns: int) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]] | None:
    """Offsets and sizes, samples x columns, or None; whether they lie in the file is checked as they are used."""
    data = annex.section(PLACES)
    if data is None:
        return None
    count = annex.num_samples * columns
    if len(data) != _HEAD.size + 16 * count or _HEAD.unpack(data[: _HEAD.size])[0] != columns:
        problem = f"has {format_count(len(data), 'byte')}, which cannot be places of {format_count(columns, 'column')}"
        raise annex.fail(PLACES, problem)
    offsets, sizes = data[_HEAD.size :].view("<u8").reshape(2, annex.num_samples, columns)
    return offsets, sizes
