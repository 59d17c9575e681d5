"""``headrace.concat``: datasets one after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from headrace.formats.sets.agreement import checked_parts
from headrace.formats.sets.routed import RoutedDataset

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headrace.types import Dataset, IndexArray

__all__ = ["ConcatDataset", "concat"]


def concat(datasets: Iterable[Dataset]) -> ConcatDataset:
    """Put datasets one after the other, whatever their formats.

    The result is a dataset like any other: for a Loader, for ``write``, for ``verify``. The datasets need the same
    fields, and the same classes where they have names for them. To close it closes them.

    Args:
        datasets: what ``headrace.open`` gave, one or more.

    Raises:
        FormatError: the fields or the classes are not the same; the message names the field and both files.

    Example:
        >>> import os, tempfile, headrace
        >>> folder = tempfile.mkdtemp()
        >>> for name, values in (("a", [0, 1]), ("b", [2, 3, 4])):
        ...     headrace.write(os.path.join(folder, f"{name}.beton"), values, fields={"n": headrace.Int()})
        >>> both = headrace.concat([headrace.open(os.path.join(folder, f"{name}.beton")) for name in "ab"])
        >>> len(both), [sample.n for sample in both[1:4]]
        (5, [1, 2, 3])
    """
    return ConcatDataset(checked_parts(datasets, "concat"))


class ConcatDataset(RoutedDataset):
    """Datasets one after the other; see ``headrace.concat``.

    Args:
        parts: whole datasets with the same fields.
        path: what messages call it; by default the paths of the parts.
    """

    def __init__(self, parts: tuple[Dataset, ...], path: str | None = None) -> None:
        super().__init__(_flat(parts), path if path is not None else _name_of(parts))
        self._starts = np.zeros(len(self.parts) + 1, np.int64)
        np.cumsum([len(part) for part in self.parts], out=self._starts[1:])

    def __len__(self) -> int:
        return int(self._starts[-1])

    def __reduce__(self) -> tuple[Any, ...]:
        return ConcatDataset, (self.parts, self._path)

    def _with_parts(self, parts: tuple[Dataset, ...]) -> ConcatDataset:
        return ConcatDataset(parts, self._path)

    def _route(self, indices: IndexArray) -> tuple[IndexArray, IndexArray]:
        parts = np.searchsorted(self._starts, indices, side="right") - 1
        return parts, indices - self._starts[parts]

    def _find(self, part: int, numbers: IndexArray) -> dict[int, int]:
        return {number: int(self._starts[part]) + number for number in numbers.tolist()}

    def page_numbers(self) -> IndexArray | None:
        """Number of the page of each sample; pages of different parts differ, and a part without pages is one page."""
        numbers, first = [], 0
        for part in self.parts:
            pages = part.page_numbers()
            here = np.zeros(len(part), np.int64) if pages is None else pages - pages.min(initial=0)
            numbers.append(here + first)
            first = int(numbers[-1].max(initial=first - 1)) + 1
        return np.concatenate(numbers)


def _flat(parts: tuple[Dataset, ...]) -> tuple[Dataset, ...]:
    """Parts of parts stand for themselves: so a batch is split, and copied, once."""
    return tuple(one for part in parts for one in (part.parts if isinstance(part, ConcatDataset) else (part,)))


def _name_of(parts: tuple[Dataset, ...]) -> str:
    first, last = parts[0].path, parts[-1].path
    if len(parts) == 1:
        return first
    return f"{first} and {last}" if len(parts) == 2 else f"{first} to {last} ({len(parts):,} datasets)"
