"""Batches ahead of the consumer.

Contract. A ``Prefetcher`` makes the batches of one epoch, in order, with two threads or more. Each takes the next step,
begins it (reading and native calls, for several steps at a time, so that Python work on one batch overlaps with
native work on another), waits for its turn and finishes it (Python ops, strictly one batch after the other). At most
``batches_ahead`` finished batches wait, and one more is begun. An exception is raised by ``__next__`` at the place of
its batch; a StopIteration, which would look like the end of the epoch, as a RuntimeError. The threads end when the
epoch does, when ``close`` is called, when the consumer lets go of the prefetcher (they hold no reference to it) or when
the interpreter exits. ``close`` waits for them, at most for the batch they are at. But when the garbage collector lets
go of the consumer, nobody waits: it may do so in the middle of anything, with any lock held, also one that the threads
need. The last thread calls ``on_end``, so that what the threads use is let go when none of them uses it any more.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import os
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any, Generic, Protocol, Self, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["BatchMaker", "Prefetcher", "as_error"]

_Made = TypeVar("_Made")
_Made_co = TypeVar("_Made_co", covariant=True)


class BatchMaker(Protocol[_Made_co]):
    """Makes the batch of a step in two parts; a step may also be a group of batches."""

    def begin(self, step: int) -> Any:
        """The part that may run for several steps at a time."""
        ...

    def finish(self, step: int, begun: Any) -> _Made_co:
        """The part that runs one step after the other."""
        ...


class _Belt(Generic[_Made]):
    """What the threads and the consumer share; all of it guarded by ``change``."""

    def __init__(self, first: int, last: int, batches_ahead: int, threads: int, on_stop: Callable[[], None]) -> None:
        self.on_stop = on_stop
        self.change = threading.Condition()
        self.threads = threads
        self.next_step = first  # to be begun
        self.turn = first  # to be finished
        self.taken = first  # to be handed out
        self.last = last
        self.batches_ahead = batches_ahead
        self.is_stopped = False
        self.idle = 0  # threads that wait for room
        self.idle_since_s: float | None = None  # since all of them do
        self.idle_s = 0.0
        self.idle_seen_s = 0.0  # by the consumer, when it took a batch
        self.ready: deque[tuple[_Made | None, BaseException | None]] = deque()

    def take_step(self) -> int | None:
        """The next step to begin, when there is room for its batch; None at the end."""
        with self.change:
            if not self._has_room():
                self._wait_for_room()
            if self.is_stopped or self.next_step >= self.last:
                return None
            self.next_step += 1
            return self.next_step - 1

    def _has_room(self) -> bool:
        return self.is_stopped or self.next_step <= self.taken + self.batches_ahead

    def _wait_for_room(self) -> None:
        self.idle += 1
        if self.idle == self.threads:
            self.idle_since_s = time.perf_counter()
        self.change.wait_for(self._has_room)
        self.idle -= 1
        if self.idle_since_s is not None:
            self.idle_s += time.perf_counter() - self.idle_since_s
            self.idle_since_s = None

    def set_batches_ahead(self, batches_ahead: int) -> None:
        with self.change:
            self.batches_ahead = batches_ahead
            self.change.notify_all()

    def wait_turn(self, step: int) -> bool:
        """False when there is nothing to wait for any more."""
        with self.change:
            self.change.wait_for(lambda: self.is_stopped or self.turn == step)
            return not self.is_stopped

    def put(self, batch: _Made | None, error: BaseException | None) -> None:
        with self.change:
            self.ready.append((batch, error))
            self.turn += 1
            self.is_stopped |= error is not None
            self.change.notify_all()

    def get(self) -> tuple[_Made | None, BaseException | None]:
        with self.change:
            self.change.wait_for(lambda: bool(self.ready))
            since_s = self.idle_since_s
            self.idle_seen_s = self.idle_s + (0.0 if since_s is None else time.perf_counter() - since_s)
            self.taken += 1
            self.change.notify_all()
            return self.ready.popleft()

    def stop(self) -> None:
        with self.change:
            self.is_stopped = True
            self.ready.clear()
            self.change.notify_all()
        self.on_stop()

    def leave(self, threads: int = 1) -> bool:
        """One thread less, or several; True when there is none any more."""
        with self.change:
            self.threads -= threads
            return self.threads == 0


class Prefetcher(Generic[_Made]):
    """An iterator over the batches of one epoch, computed ahead by threads.

    Args:
        maker: makes the batches.
        first: the first step.
        last: the step before which the epoch ends.
        batches_ahead: how many finished batches may wait.
        threads: how many batches are begun at a time.
        on_end: called once, when no thread uses the maker any more.
        on_stop: called when the threads are to end, so that what they wait for does not keep them; must not block.
    """

    def __init__(
        self,
        maker: BatchMaker[_Made],
        first: int,
        last: int,
        batches_ahead: int,
        *,
        threads: int = 2,
        on_end: Callable[[], None] = lambda: None,
        on_stop: Callable[[], None] = lambda: None,
    ) -> None:
        self._left = last - first
        self._pid = os.getpid()
        count = max(0, min(threads, self._left))
        self._belt: _Belt[_Made] = _Belt(first, last, batches_ahead, count, on_stop)
        self._threads: list[threading.Thread] = []
        if not count:
            on_end()
        try:
            for _ in range(count):
                self._threads.append(_start(maker, self._belt, on_end))
        except RuntimeError:  # the system has no more threads
            self._belt.stop()
            if self._belt.leave(count - len(self._threads)):
                on_end()
            raise

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> _Made:
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
    def idle_s(self) -> float:
        """How long nothing was made, for as many batches were ready as may wait; until the last one was taken."""
        return self._belt.idle_seen_s

    def set_batches_ahead(self, batches_ahead: int) -> None:
        """Let another number of finished batches wait, from now on."""
        self._belt.set_batches_ahead(batches_ahead)

    @property
    def is_ready(self) -> bool:
        """The next batch can be had without waiting."""
        ready = self._belt.ready
        return bool(ready) and ready[0][1] is None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def stop(self) -> None:
        """Let the threads end, and drop what they have computed; does not wait for them."""
        self._left = 0
        if self._pid == os.getpid():  # a forked process has no such threads, and the lock may be held for ever
            self._belt.stop()

    def close(self) -> None:
        """The same, and wait for the threads, if that is safe; does nothing the second time."""
        self.stop()
        if self._pid != os.getpid() or _is_collecting():
            return
        for thread in self._threads:
            if thread is not threading.current_thread() and thread.is_alive():
                thread.join()

    def __del__(self) -> None:
        with contextlib.suppress(AttributeError):  # __init__ failed
            self.stop()


def as_error(error: BaseException) -> BaseException:
    """The same exception; for a StopIteration, which a loop takes for its end, a RuntimeError with it as the cause."""
    if not isinstance(error, StopIteration):
        return error
    problem = RuntimeError("a function that the loader calls raised StopIteration, perhaps next() of an empty iterator")
    problem.__cause__ = error
    for note in getattr(error, "__notes__", ()):  # which op, which samples
        problem.add_note(note)
    return problem


_collecting: set[int] = set()


def _note_collection(phase: str, info: object) -> None:
    (_collecting.add if phase == "start" else _collecting.discard)(threading.get_ident())


def _is_collecting() -> bool:
    """The garbage collector is at work in this thread."""
    return threading.get_ident() in _collecting


gc.callbacks.append(_note_collection)


def _start(maker: BatchMaker[_Made], belt: _Belt[_Made], on_end: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=_produce, args=(maker, belt, on_end), name="headrace-loader", daemon=True)
    _running[thread] = belt
    try:
        thread.start()
    except RuntimeError:
        del _running[thread]
        raise
    return thread


def _produce(maker: BatchMaker[_Made], belt: _Belt[_Made], on_end: Callable[[], None]) -> None:
    try:
        while (step := belt.take_step()) is not None:
            _make(maker, belt, step)  # a frame of its own: nothing of the batch is held while this thread waits
    finally:
        if belt.leave():
            on_end()
        _running.pop(threading.current_thread(), None)


def _make(maker: BatchMaker[_Made], belt: _Belt[_Made], step: int) -> None:
    begun: Any = None
    batch: _Made | None = None
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
_running: dict[threading.Thread, _Belt[Any]] = {}
os.register_at_fork(after_in_child=_running.clear)  # they are not there, and their locks may be held for ever


@atexit.register
def _end_all() -> None:
    for belt in list(_running.values()):
        belt.stop()
    for thread in list(_running):
        thread.join()
