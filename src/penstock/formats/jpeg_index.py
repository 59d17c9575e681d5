"""Indices of JPEGs, whatever the format that holds them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.codecs import jpeg

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from penstock.annex import Tiles
    from penstock.types import IndexArray

__all__ = ["index_problems"]


def index_problems(
    tiles: Tiles,
    indices: IndexArray,
    column: int,
    sizes: npt.NDArray[np.uint64],
    checksums: npt.NDArray[np.uint32],
) -> dict[int, str]:
    """What is wrong with the indices of some pictures, by position.

    Args:
        tiles: the indices of a dataset.
        indices: samples of it, as the indices are numbered.
        column: which of the fields with pictures.
        sizes: bytes of each sample's picture.
        checksums: CRC-32C of each, as its bytes are.
    """
    found = {}
    for position, packed in tiles.stored(indices, column):
        problem = "tile index: lies outside of its section"
        if packed is not None:
            fault = jpeg.index_problem(packed, int(sizes[position]), int(checksums[position]))
            if fault is None:
                continue
            problem = fault
        found[position] = f"the index of the JPEG is not right ({problem}); make a new one with: penstock index"
    return found
