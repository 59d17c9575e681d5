"""Work done by threads ahead of whoever takes the results."""

from __future__ import annotations

import os
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from concurrent.futures import Future

__all__ = ["map_ahead"]

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


def map_ahead(
    function: Callable[[_Item], _Result], items: Iterable[_Item], *, threads: int | None = None, ahead: int = 2
) -> Iterator[_Result]:
    """Results in the order of the items, while threads work on those that follow.

    Few items are under way at a time, however many there are. Whoever stops early does not wait for what has not begun.

    Args:
        function: called from several threads.
        items: drawn by the thread that takes the results.
        threads: how many; by default one for each core.
        ahead: items under way for each thread.

    Example:
        >>> list(map_ahead(len, ["a", "bc", ""], threads=2))
        [1, 2, 0]
    """
    count = max(1, len(os.sched_getaffinity(0)) if threads is None else threads)
    with ThreadPoolExecutor(count) as pool:
        waiting: deque[Future[_Result]] = deque()
        try:
            for item in items:
                waiting.append(pool.submit(function, item))
                if len(waiting) > ahead * count:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()
