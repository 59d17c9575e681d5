"""Progress of loops, on a terminal."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, TypeVar

from headrace.progress import ProgressBar

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["progressbar", "progressbar_items"]

_T = TypeVar("_T")


class _Silent:
    def update(self, *args: Any, **kwargs: Any) -> None:
        """Nothing."""

    def close(self) -> None:
        """Nothing."""


def progressbar(iterable: Iterable[_T] | None = None, *args: Any, **kwargs: Any) -> Any:
    """The same things one after the other, with a bar if standard output is a terminal.

    Without an iterable it gives an object with ``update`` and ``close``, which stays silent.
    """
    if iterable is None:
        return _Silent()
    return _counted(iterable, **kwargs) if sys.stdout.isatty() else iterable


def _counted(
    iterable: Iterable[_T], desc: str = "", unit: str = "files", total: int | None = None, **_: Any
) -> Iterator[_T]:
    with ProgressBar(desc or "working", unit=unit.strip()) as bar:
        for done, one in enumerate(iterable, 1):
            yield one
            bar(done, total, 0)


def progressbar_items(dictionary: dict[Any, Any], *args: Any, **kwargs: Any) -> Any:
    """Keys and values, with a bar if standard output is a terminal."""
    return progressbar(dictionary.items(), *args, total=len(dictionary), **kwargs)
