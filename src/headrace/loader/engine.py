"""Batches ahead of the consumer.

Contract. A ``Prefetcher`` makes the batches of one epoch, in order, with two threads. Each takes the next step,
begins it (reading and native calls, for several steps at a time, so that Python work on one batch overlaps with
native work on another), waits for its turn and finishes it (Python ops, strictly one batch after the other). At most
``batches_ahead`` finished batches wait, and one more is begun. An exception is raised by ``__next__`` at the place of
its batch; a StopIteration, which would look like the end of the epoch, as a RuntimeError. The threads end when the
epoch does, when ``close`` is called, when the consumer lets go of the prefetcher (they hold no reference to it) or when
the interpreter exits; ``close`` waits for them, at most for the batch they are at.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
import weakref
from collections import deque
from typing import TYPE_CHECKING, Any, Protocol, Self

if TYPE_CHECKING:
    from headrace.types import Batch

__all__ = ["BatchMaker", "Prefetcher", "as_error"]

_THREADS = 2


class BatchMaker(Protocol):
    """Makes the batch of a step in two parts."""

    def begin(self, step: int) -> Any:
        """The part that may run for several steps at a time."""
        ...

    def finish(self, step: int, begun: Any) -> Batch:
        """The part that runs one step after the other."""
        ...


class _Belt:
    """What the threads and the consumer share; all of it guarded by ``change``."""

    def __init__(self, first: int, last: int, batches_ahead: int) -> None:
        self.change = threading.Condition()
        self.next_step = first  # to be begun
        self.turn = first  # to be finished
        self.taken = first  # to be handed out
        self.last = last
        self.batches_ahead = batches_ahead
        self.is_stopped = False
        self.ready: deque[tuple[Batch | None, BaseException | None]] = deque()

    def take_step(self) -> int | None:
        """The next step to begin, when there is room for its batch; None at the end."""
        with self.change:
            self.change.wait_for(lambda: self.is_stopped or self.next_step <= self.taken + self.batches_ahead)
            if self.is_stopped or self.next_step >= self.last:
                return None
            self.next_step += 1
            return self.next_step - 1

    def wait_turn(self, step: int) -> bool:
        """False when there is nothing to wait for any more."""
        with self.change:
            self.change.wait_for(lambda: self.is_stopped or self.turn == step)
            return not self.is_stopped

    def put(self, batch: Batch | None, error: BaseException | None) -> None:
        with self.change:
            self.ready.append((batch, error))
            self.turn += 1
            self.is_stopped |= error is not None
            self.change.notify_all()

    def get(self) -> tuple[Batch | None, BaseException | None]:
        with self.change:
            self.change.wait_for(lambda: bool(self.ready))
            self.taken += 1
            self.change.notify_all()
            return self.ready.popleft()

    def stop(self) -> None:
        with self.change:
            self.is_stopped = True
            self.ready.clear()
            self.change.notify_all()


class Prefetcher:
    """An iterator over the batches of one epoch, computed ahead by threads."""

    def __init__(self, maker: BatchMaker, first: int, last: int, batches_ahead: int) -> None:
        self._left = last - first
        self._pid = os.getpid()
        self._belt = _Belt(first, last, batches_ahead)
        self._threads = [
            threading.Thread(target=_produce, args=(maker, self._belt), name="headrace-loader", daemon=True)
            for _ in range(min(_THREADS, self._left))
        ]
        _open.add(self)
        for thread in self._threads:
            thread.start()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Batch:
        if self._left <= 0:
            self.close()
            raise StopIteration
        batch, error = self._belt.get()
        if error is not None:
            self.close()
            raise error
        self._left -= 1
        assert batch is not None
        return batch

    @property
    def is_ready(self) -> bool:
        """The next batch can be had without waiting."""
        ready = self._belt.ready
        return bool(ready) and ready[0][1] is None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def close(self) -> None:
        """End the threads and drop what they have computed; does nothing the second time."""
        self._left = 0
        if self._pid != os.getpid():
            return  # a forked process has no such threads, and the lock may be held for ever
        self._belt.stop()
        for thread in self._threads:
            if thread is not threading.current_thread() and thread.is_alive():
                thread.join()
        _open.discard(self)

    def __del__(self) -> None:
        with contextlib.suppress(AttributeError):  # __init__ failed
            if self._pid == os.getpid():
                self._belt.stop()


def as_error(error: BaseException) -> BaseException:
    """The same exception; for a StopIteration, which a loop takes for its end, a RuntimeError with it as the cause."""
    if not isinstance(error, StopIteration):
        return error
    problem = RuntimeError("a function that the loader calls raised StopIteration, perhaps next() of an empty iterator")
    problem.__cause__ = error
    for note in getattr(error, "__notes__", ()):  # which op, which samples
        problem.add_note(note)
    return problem


def _produce(maker: BatchMaker, belt: _Belt) -> None:
    while (step := belt.take_step()) is not None:
        _make(maker, belt, step)  # a frame of its own: nothing of the batch is held while this thread waits


def _make(maker: BatchMaker, belt: _Belt, step: int) -> None:
    begun: Any = None
    batch: Batch | None = None
    problem: BaseException | None = None
    try:
        begun = maker.begin(step)
    except BaseException as error:
        problem = as_error(error)
    if not belt.wait_turn(step):
        return
    if problem is None:
        try:
            batch = maker.finish(step, begun)
        except BaseException as error:
            problem = as_error(error)
    belt.put(batch, problem)


# Threads must not be inside a native call when the interpreter goes away.
_open: weakref.WeakSet[Prefetcher] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    for prefetcher in list(_open):
        prefetcher.close()
