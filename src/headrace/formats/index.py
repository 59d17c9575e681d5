"""``headrace.index``: give an existing dataset an annex."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.errors import UnknownFormatError
from headrace.formats.barecat.dataset import BarecatDataset
from headrace.formats.beton.indexing import index_beton
from headrace.formats.ffr.dataset import FfrDataset
from headrace.formats.open import find_format

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from headrace.errors import PathLike
    from headrace.types import Progress

__all__ = ["index"]

_SIDE: dict[str, Any] = {"ffr": FfrDataset, "barecat": BarecatDataset}


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
) -> str:
    """Give a dataset an annex.

    A .beton gets checksums of every value, indices of its JPEGs, names, classes and metadata as given. What an annex
    that is there already knows is kept unless it is given anew. If it has checksums, the file is checked first, and a
    damaged file is refused: new checksums would hide the damage.

    An .ffr (a file, or a folder of parts) and a .barecat have checksums and names of their own: they get the indices
    of their JPEGs alone, beside them, and ``embed``, ``names``, ``class_names`` and ``metadata`` are refused.

    Args:
        path: the dataset, for example a .beton that FFCV wrote.
        embed: put the annex into the file (it is copied and replaced in one step; FFCV still reads it) instead of
            beside it as ``FILE.annex``.
        fresh: do not look at the annex there is (because it is damaged, say); nothing of it is kept.
        names: a name for each sample.
        class_names: field name to names of its classes.
        metadata: anything JSON can hold, about the whole dataset.
        jpeg_index: make an index of every JPEG, so that a crop is decoded without the rest of its picture.
        progress: called as the work advances.

    Returns:
        The path of the file that now holds the annex.
    """
    kind = _kind_of(path)
    if kind == "beton":
        return index_beton(
            path,
            embed=embed,
            fresh=fresh,
            names=names,
            class_names=class_names,
            metadata=metadata,
            jpeg_index=jpeg_index,
            progress=progress,
        )
    if kind not in _SIDE:
        raise ValueError(
            f"{path} is a {kind}, and only .beton, .ffr and .barecat have an annex; pack or convert it first"
        )
    given = {"embed": embed, "names": names is not None, "class_names": class_names is not None}
    given |= {"metadata": metadata is not None, "jpeg_index=False": not jpeg_index}
    if wrong := [name for name, is_given in given.items() if is_given]:
        raise ValueError(f"{path}: {', '.join(wrong)} is for .beton files; a .{kind} gets indices of its JPEGs alone")
    with _SIDE[kind](path) as dataset:
        where: str = dataset.index_jpegs(progress)
        return where


def _kind_of(path: PathLike) -> str:
    try:
        return find_format(path).name
    except UnknownFormatError:
        return "beton"  # under any name; its reader tells what is wrong with it
