"""What numpy does not do for several threads at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["distinct"]


def distinct(numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The different numbers, in ascending order.

    ``np.unique`` imports ``numpy.ma`` when it is first called, and when a second thread calls it at the end of that, it
    raises RecursionError.

    Example:
        >>> distinct(np.array([3, 1, 3, 2])).tolist()
        [1, 2, 3]
    """
    ordered = np.sort(numbers, axis=None)
    is_new = np.ones(len(ordered), np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=is_new[1:])
    return ordered[is_new]
