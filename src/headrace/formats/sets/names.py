"""Names of samples that lie in several datasets, looked up as they are asked for."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeAlias, overload

import numpy as np

if TYPE_CHECKING:
    from headrace.types import IndexArray

__all__ = ["RoutedNames"]

Route: TypeAlias = "Callable[[IndexArray], tuple[IndexArray, IndexArray]]"
Find: TypeAlias = "Callable[[int, IndexArray], dict[int, int]]"
_BLOCK = 4096


class RoutedNames(Sequence[str]):
    """Names without a copy of them.

    Args:
        names: those of each part.
        length: how many samples there are.
        route: for samples, numbers of their parts and their numbers there.
        find: for a part and numbers of samples there, where these are among the samples.
    """

    def __init__(self, names: Sequence[Sequence[str]], length: int, route: Route, find: Find) -> None:
        self._names, self._length, self._route, self._find = names, length, route, find

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            return self._at(np.arange(*index.indices(self._length), dtype=np.int64))
        if not -self._length <= index < self._length:
            raise IndexError(f"name {index} is out of range, there are {self._length:,}")
        return self._at(np.array([index % self._length], np.int64))[0]

    def _at(self, indices: IndexArray) -> list[str]:
        parts, numbers = self._route(indices)
        return [self._names[part][number] for part, number in zip(parts.tolist(), numbers.tolist(), strict=True)]

    def __iter__(self) -> Iterator[str]:
        for start in range(0, self._length, _BLOCK):
            yield from self[start : start + _BLOCK]

    def __contains__(self, name: object) -> bool:
        with contextlib.suppress(ValueError):
            self.index(name)
            return True
        return False

    def index(self, name: object, start: int = 0, stop: int | None = None) -> int:
        """Where a name is, asked of each part; the first, where several samples have it."""
        places = [place for part, names in enumerate(self._names) for place in self._places(part, names, name)]
        within = [place for place in places if start <= place < (self._length if stop is None else stop)]
        if not within:
            raise ValueError(f"no sample is called {name!r}")
        return min(within)

    def _places(self, part: int, names: Sequence[str], name: object) -> list[int]:
        try:
            number = names.index(name)
        except ValueError:
            return []
        return list(self._find(part, np.array([number], np.int64)).values())

    def __eq__(self, other: object) -> bool:
        if isinstance(other, str) or not isinstance(other, Sequence):
            return NotImplemented
        return len(self) == len(other) and all(a == b for a, b in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]
