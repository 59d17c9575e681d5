"""``headrace.subset``: some samples of a dataset, in any order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from headrace._native import crc32c
from headrace.formats.contract import normalize_indices
from headrace.formats.sets.agreement import checked_parts
from headrace.formats.sets.composite import combine_fingerprints
from headrace.formats.sets.routed import RoutedDataset

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.types import Dataset, IndexArray, Indices

__all__ = ["SubsetDataset", "subset"]


def subset(
    dataset: Dataset, indices: Indices | Sequence[str] | None = None, *, names: Sequence[str] | None = None
) -> SubsetDataset:
    """Choose samples of a dataset, in any order; a sample may come more than once.

    Args:
        dataset: what ``headrace.open`` gave, of any format.
        indices: numbers of the samples (negative ones count from the end), a mask, or their names.
        names: names of the samples, instead of numbers.

    Raises:
        IndexError: a number is out of range.
        KeyError: no sample has a name.

    Example:
        >>> import os, tempfile, headrace
        >>> path = os.path.join(tempfile.mkdtemp(), "x.beton")
        >>> headrace.write(path, range(5), fields={"n": headrace.Int()}, names=list("abcde"))
        >>> [sample.n for sample in headrace.subset(headrace.open(path), [4, 0, -2])]
        [4, 0, 3]
        >>> [sample.n for sample in headrace.subset(headrace.open(path), names=["d", "b"])]
        [3, 1]
    """
    checked_parts([dataset], "subset")
    if (indices is None) == (names is None):
        raise TypeError("subset takes indices or names, one of them")
    chosen: Any = names if indices is None else indices
    if names is None and len(chosen) and isinstance(chosen[0], str):
        names = chosen
    numbers = _numbers_of(dataset, names) if names is not None else normalize_indices(chosen, len(dataset))
    return SubsetDataset(dataset, numbers)


def _numbers_of(dataset: Dataset, names: Sequence[str]) -> IndexArray:
    if isinstance(names, str):
        raise TypeError(f"names must be a list of names, got the text {names!r}")
    keys = dataset.keys
    if keys is None:
        raise ValueError(f"{dataset.path}: the samples have no names, only numbers up to {len(dataset) - 1}")
    if len(names) < _FEW:
        return np.array([_number_of(dataset, keys, name) for name in names], np.int64)
    places = {key: number for number, key in reversed(list(enumerate(keys)))}
    missing = next((name for name in names if name not in places), None)
    if missing is not None:
        raise KeyError(f"{dataset.path}: no sample is called {missing!r}")
    return np.fromiter((places[name] for name in names), np.int64, len(names))


_FEW = 16  # names that are looked up one by one


def _number_of(dataset: Dataset, keys: Sequence[str], name: str) -> int:
    try:
        return keys.index(name)
    except ValueError:
        raise KeyError(f"{dataset.path}: no sample is called {name!r}") from None


class SubsetDataset(RoutedDataset):
    """Some samples of a dataset; see ``headrace.subset``.

    Args:
        dataset: the whole.
        indices: numbers of the samples in it.
    """

    def __init__(self, dataset: Dataset, indices: IndexArray) -> None:
        super().__init__((dataset,), dataset.path)
        self.indices = indices

    def __len__(self) -> int:
        return len(self.indices)

    def __reduce__(self) -> tuple[Any, ...]:
        return SubsetDataset, (self.parts[0], self.indices)

    def _with_parts(self, parts: tuple[Dataset, ...]) -> SubsetDataset:
        return SubsetDataset(parts[0], self.indices)

    def _route(self, indices: IndexArray) -> tuple[IndexArray, IndexArray]:
        return np.zeros(len(indices), np.int64), self.indices[indices]

    @property
    def fingerprint(self) -> int:
        """32 bits that change when the dataset or the choice is another one."""
        return combine_fingerprints(self.parts, "subset", crc32c(self.indices.astype("<i8")))

    def page_numbers(self) -> IndexArray | None:
        """Number of the page of each sample, or None when the dataset has no pages."""
        pages = self.parts[0].page_numbers()
        return None if pages is None else pages[self.indices]
