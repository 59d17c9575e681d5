"""Pictures of a .npy or .npz for the loader: their bytes where they lie."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from headrace.codecs.image import find_native_spans
from headrace.errors import FormatError
from headrace.fields import Image
from headrace.formats.contract import join_images
from headrace.formats.npy.columns import Column, NumberColumn, RaggedColumn
from headrace.types import ImageSpans

if TYPE_CHECKING:
    from headrace.types import Field, IndexArray

__all__ = ["image_spans_of"]


def image_spans_of(column: Column, field: Field, indices: IndexArray) -> ImageSpans:
    """Pictures of a column, not copied where they can be used as they are."""
    if not isinstance(field, Image):
        problem = f"field {column.saved.name!r} holds no pictures, but {field.kind}"
        raise FormatError(column.saved.path, problem=problem, fix="Open it with fields= if it does.")
    if isinstance(column, NumberColumn):
        return _pixels(column, field, indices)
    if isinstance(column, RaggedColumn):
        base, begins, sizes = column.spans(indices)
        modes, widths, heights = find_native_spans(base, begins, sizes)
        column.saved.content.check()
        if widths.all():
            return ImageSpans(base, begins, sizes, modes, widths, heights)
    files = list(column.stored(indices, field))  # something that the native core does not decode is among them
    return join_images(column.saved.path, column.saved.name, indices, files)


def _pixels(column: NumberColumn, field: Field, indices: IndexArray) -> ImageSpans:
    count, (height, width, _) = len(indices), column.saved.header.shape[1:]
    size = height * width * 3
    if column.saved.header.is_fortran:
        base = column.stored(indices, field).reshape(-1)
        places, sizes = np.arange(count, dtype=np.uint64) * np.uint64(size), np.full(count, size, np.uint64)
    else:
        offsets, sizes = column.saved.places(indices)
        base, places = column.saved.content.region(offsets, sizes)
    return ImageSpans(
        base,
        places,
        sizes,
        np.ones(count, np.uint8),
        np.full(count, width, np.uint32),
        np.full(count, height, np.uint32),
    )
