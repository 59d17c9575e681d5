"""Values that lie in a file as they are: taken out many at once, and pictures for the loader without a copy."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from headrace.codecs.image import find_native_spans
from headrace.errors import CorruptSampleError
from headrace.formats.contract import join_images
from headrace.formats.spans.span_file import BadSpanError
from headrace.types import ImageSpans

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from headrace.formats.spans import SpanFile
    from headrace.types import IndexArray

__all__ = ["Places", "pictures_in_place", "values_in_place"]


class Places(NamedTuple):
    """Where values are in a file; all of them were checked to lie inside."""

    offsets: npt.NDArray[np.uint64]
    sizes: npt.NDArray[np.uint64]


def values_in_place(path: str, field: str, indices: IndexArray, file: SpanFile, places: Places) -> list[bytes]:
    """The bytes of values.

    Args:
        path: of the dataset, for errors.
        field: whose values, for errors.
        indices: samples, for errors.
        file: in which they lie.
        places: where.
    """
    try:
        return file.read(places.offsets, places.sizes)
    except BadSpanError as error:
        raise _corrupt(path, field, indices, places, error) from None


def pictures_in_place(path: str, field: str, indices: IndexArray, file: SpanFile, places: Places) -> ImageSpans:
    """Pictures for the loader: spans of the file where the native core decodes all of them, else a copy."""
    try:
        base, starts = file.region(places.offsets, places.sizes)
    except BadSpanError as error:
        raise _corrupt(path, field, indices, places, error) from None
    modes, widths, heights = find_native_spans(base, starts, places.sizes)
    file.check()
    if not widths.all():  # something that the native core does not decode is among them
        return join_images(path, field, indices, values_in_place(path, field, indices, file, places))
    return ImageSpans(base, starts, places.sizes, modes, widths, heights)


def _corrupt(path: str, field: str, indices: IndexArray, places: Places, error: BadSpanError) -> CorruptSampleError:
    sample, offset = int(indices[error.position]), int(places.offsets[error.position])
    return CorruptSampleError(path, sample=sample, field=field, offset=offset, problem=error.problem)
