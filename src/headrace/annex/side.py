"""Annexes that stand beside their dataset."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.errors import PathLike

__all__ = ["side_path"]


def side_path(dataset_path: PathLike) -> str:
    """Where the annex of a dataset is when it is not inside the file.

    Example:
        >>> side_path("train.beton")
        'train.beton.annex'
    """
    return os.fspath(dataset_path) + ".annex"
