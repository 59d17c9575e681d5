"""What the viewer shows: datasets by number, and the threads that read them.

The shelf is filled before the server starts and does not change, so a request names a number and never a path. The
event loop calls ``run``; the functions it is given run in a few threads, and what they share is behind a lock. Whoever
made the shelf closes it, after the server has ended and before the datasets.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from headrace.errors import ClosedError
from headrace.formats.thumbnails import picture_fields
from headrace.loader import Loader
from headrace.viewer.jobs import Jobs

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator

    from headrace.types import Dataset

__all__ = ["BusyError", "Damage", "Shelf", "Shown", "short_titles"]

P = ParamSpec("P")
T = TypeVar("T")
_THREADS = 4
_WAITING = 512
_TIMEOUT_S = 60.0
_MOST_DAMAGED = 100_000
_MOST_TEXT = 500


class Damage:
    """The samples of a dataset that are known to be damaged, with what is wrong; any thread may add and ask.

    A thumbnail that cannot be made adds its sample, and a check of the whole dataset adds what it finds.
    """

    def __init__(self) -> None:
        self._messages: dict[int, str] = {}
        self._lock = threading.Lock()
        self.is_complete = False
        """The whole dataset was checked."""

    def add(self, sample: int, message: str) -> None:
        """Remember a sample; of very many the first."""
        with self._lock:
            if len(self._messages) < _MOST_DAMAGED:
                self._messages.setdefault(int(sample), message[:_MOST_TEXT])

    def forget(self, samples: Iterable[int]) -> None:
        """These are not damaged after all."""
        with self._lock:
            for sample in samples:
                self._messages.pop(int(sample), None)

    def samples(self) -> list[int]:
        """Numbers of the samples, ascending."""
        with self._lock:
            return sorted(self._messages)

    def message(self, sample: int) -> str | None:
        """What is wrong with a sample, or None when nothing is known to be."""
        with self._lock:
            return self._messages.get(sample)

    def __len__(self) -> int:
        return len(self._messages)


@dataclass(slots=True, eq=False)
class Shown:
    """One dataset on the shelf.

    ``title`` is what the pages call it. ``damage`` is what is known to be wrong with its samples. ``loader`` is one of
    the dataset, for the pages of what a model gets. ``jobs`` is what takes longer than a request. ``owned`` is closed
    with the shelf.
    """

    dataset: Dataset
    title: str
    damage: Damage = field(default_factory=Damage)
    loader: Loader | None = None
    jobs: Jobs = field(default_factory=Jobs)
    owned: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    _kept: dict[Hashable, Any] = field(default_factory=dict)
    _locks: dict[Hashable, threading.Lock] = field(default_factory=dict)

    def once(self, key: Hashable, make: Callable[[], T]) -> T:
        """What ``make`` gives, made the first time and kept; others who ask for the same meanwhile wait."""
        with self._locks.setdefault(key, threading.Lock()):
            if key not in self._kept:
                self._kept[key] = make()
            found: T = self._kept[key]
            return found

    @property
    def pictures(self) -> list[str]:
        """Names of the fields that have pictures; for fields of bytes some values are looked at, once."""
        return self.once("picture fields", lambda: picture_fields(self.dataset))


class Shelf:
    """Datasets by number, in the order in which they were named.

    Args:
        items: one for each dataset. They stay open: whoever opened them closes them, after the shelf.
        threads: that read at a time.
    """

    def __init__(self, items: Iterable[Shown], *, threads: int = _THREADS) -> None:
        self._items = tuple(items)
        self._pool = ThreadPoolExecutor(threads, "headrace-view")
        self._waiting = 0
        self._turns = asyncio.Semaphore(threads)
        self._endings: list[Callable[[], object]] = []
        self.is_closed = False

    @classmethod
    def of(cls, targets: Iterable[Dataset | Loader], *, threads: int = _THREADS) -> Shelf:
        """Datasets, and those of loaders, under the names of their files, longer ones where two are called alike."""
        pairs = [(one.dataset, one) if isinstance(one, Loader) else (one, None) for one in targets]
        titles = short_titles([dataset.path for dataset, _ in pairs])
        named = zip(pairs, titles, strict=True)
        return cls((Shown(dataset, title, loader=loader) for (dataset, loader), title in named), threads=threads)

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[Shown]:
        return iter(self._items)

    def __getitem__(self, number: int) -> Shown:
        if not 0 <= number < len(self._items):
            raise LookupError(f"there is no dataset {number}; they are numbered from 0 to {len(self._items) - 1}")
        return self._items[number]

    def pick(self, number: str | None) -> Shown:
        """The dataset that a request names, by default the first."""
        text = number or "0"
        if not (text.isascii() and text.isdigit() and len(text) < 10):
            raise ValueError(f"d must be the number of a dataset, got {text[:60]!r}")
        return self[int(text)]

    async def run(self, function: Callable[P, T], *args: P.args, **options: P.kwargs) -> T:
        """Run what may take a while in a thread.

        Raises:
            TimeoutError: it took longer than a request may. The thread ends it, and nobody gets the result.
            BusyError: too many wait already.
        """
        if self.is_closed:
            raise ClosedError("the viewer is closed")
        if self._waiting >= _WAITING:
            raise BusyError("the viewer has too many requests at a time; try again in a moment")
        self._waiting += 1
        try:
            future = self._pool.submit(function, *args, **options)
            return await asyncio.wait_for(asyncio.wrap_future(future), _TIMEOUT_S)
        finally:
            self._waiting -= 1

    def turn(self) -> asyncio.Semaphore:
        """A block in which a thread is likely to be free: whoever waits for it can see whether he is still wanted."""
        return self._turns

    def before_close(self, end: Callable[[], object]) -> None:
        """Call something when the shelf is closed: whoever reads in the background ends then."""
        self._endings.append(end)

    def close(self) -> None:
        """End the threads, after what they are at."""
        self.is_closed = True
        for end in self._endings:
            end()
        for item in self._items:
            item.jobs.close()
        self._pool.shutdown(wait=True, cancel_futures=True)
        for item in self._items:
            item.owned.close()


class BusyError(RuntimeError):
    """More requests than are worth keeping."""


def short_titles(paths: list[str]) -> list[str]:
    """The last parts of paths, as many as it takes to tell them apart; numbers where nothing else does.

    Example:
        >>> short_titles(["data/train.beton", "data/val.beton"]), short_titles(["a/x.tar", "b/x.tar"])
        (['train.beton', 'val.beton'], ['a/x.tar', 'b/x.tar'])
    """
    parts = [os.path.normpath(path).split("/") if "://" not in path else path.rstrip("/").split("/") for path in paths]
    for count in range(1, max(map(len, parts), default=0) + 1):
        titles = ["/".join(one[-count:]) for one in parts]
        if len(set(titles)) == len(titles):
            return titles
    return [f"{path} ({number})" for number, path in enumerate(paths)]
