"""``headrace.index``: give an existing dataset an annex."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.formats.open import all_formats, locate
from headrace.progress import format_count

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from headrace.errors import PathLike
    from headrace.types import Progress

__all__ = ["index"]


def index(
    path: PathLike,
    *,
    embed: bool = False,
    fresh: bool = False,
    names: Sequence[str] | None = None,
    class_names: Mapping[str, Sequence[str]] | None = None,
    metadata: Any = None,
    jpeg_index: bool = True,
    progress: Progress | None = None,
    follow_links: bool = False,
) -> str:
    """Give a dataset an annex: checksums of every value, and tile indices of the JPEGs of every field.

    A .beton keeps names, classes and metadata there, too, as given. What an annex that is there already knows is kept
    unless it is given anew. If it has checksums, the file is checked first, and a damaged file is refused: new
    checksums would hide the damage.

    Formats that a pass over the file must find the samples of (tar, TFRecord, manifests and the like) keep where they
    are in the annex, with names, checksums and tile indices. Formats of columns (HDF5, Parquet, Arrow, .npz, .npy) get
    checksums and tile indices, .ffr and .barecat, which have checksums of their own, tile indices alone; there
    ``embed``, ``names``, ``class_names`` and ``metadata`` are refused.

    Args:
        path: the dataset, for example a .beton that FFCV wrote; or a pattern such as ``train-*.beton``: each of the
            files gets its own.
        embed: put the annex into the file (it is copied and replaced in one step; FFCV still reads it) instead of
            beside it as ``FILE.annex``.
        fresh: do not look at the annex there is (because it is damaged, say); nothing of it is kept.
        names: a name for each sample.
        class_names: field name to names of its classes.
        metadata: anything JSON can hold, about the whole dataset.
        jpeg_index: make a tile index of every JPEG, so that a crop is decoded without the rest of its picture.
        progress: called as the work advances.
        follow_links: also read shards and an annex that are symbolic links. No annex is written through a link.

    Returns:
        The path of the file that now holds the annex; of many files, that of the last.
    """
    place = locate(path)
    found = place.format
    if found.index is None:
        known = ", ".join(one.suffixes[0] for one in all_formats() if one.index is not None)
        raise ValueError(f"{path} is a {found.name}, and only {known} have an annex; pack or convert it first")
    if names is not None and len(place.paths) > 1:
        raise ValueError(f"{path} are {format_count(len(place.paths), 'file')}; give names to each of them alone")
    where = ""
    for one in place.paths:
        where = found.index(
            one,
            embed=embed,
            fresh=fresh,
            names=names,
            class_names=class_names,
            metadata=metadata,
            jpeg_index=jpeg_index,
            progress=progress,
            **found.link_options(follow_links),
        )
    return where
