"""Batches ahead of the consumer.

Contract. ``Prefetcher`` owns one thread, which computes the batches of one epoch in order and puts them into a bounded
queue; the consumer takes them out. An exception in the thread is raised by ``__next__`` at the place of its batch. The
thread ends when the epoch does, when ``close`` is called, or when the consumer lets go of the prefetcher (the thread
holds no reference to it): it looks for the stop sign before each batch and ten times a second while the queue is full.
"""

from __future__ import annotations

import contextlib
import queue
import threading
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.types import Batch

__all__ = ["Prefetcher"]

_LOOK_S = 0.1


class Prefetcher:
    """An iterator over the batches of one epoch, computed ahead by a thread."""

    def __init__(self, compute: Callable[[int], Batch], first: int, last: int, batches_ahead: int) -> None:
        self._queue: queue.Queue[tuple[Batch | None, BaseException | None]] = queue.Queue(batches_ahead)
        self._stop = threading.Event()
        self._left = last - first
        arguments = (compute, first, last, self._queue, self._stop)
        self._thread = threading.Thread(target=_produce, args=arguments, name="penstock-loader", daemon=True)
        self._thread.start()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Batch:
        if self._left <= 0:
            self.close()
            raise StopIteration
        batch, error = self._queue.get()
        if error is not None:
            self._left = 0
            self.close()
            raise error
        self._left -= 1
        assert batch is not None
        return batch

    def close(self) -> None:
        """End the thread and drop what it has computed; does nothing the second time."""
        self._stop.set()
        with contextlib.suppress(queue.Empty):
            while True:
                self._queue.get_nowait()
        if self._thread is not threading.current_thread():
            self._thread.join()
        self._left = 0

    def __del__(self) -> None:
        with contextlib.suppress(AttributeError):  # __init__ failed
            self._stop.set()


def _produce(
    compute: Callable[[int], Batch], first: int, last: int, out: queue.Queue[Any], stop: threading.Event
) -> None:
    for step in range(first, last):
        if stop.is_set():
            return
        try:
            item: tuple[Batch | None, BaseException | None] = (compute(step), None)
        except BaseException as error:
            item = (None, error)
        while not stop.is_set():
            try:
                out.put(item, timeout=_LOOK_S)
                break
            except queue.Full:
                continue
        if item[1] is not None:
            return
        del item
