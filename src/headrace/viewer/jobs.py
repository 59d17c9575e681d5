"""Work that may outlast a request: pages ask for it again and again until it is done.

A job has a thread of its own. It calls ``check`` now and then, which says how far it is and ends it when nobody has
asked for a while: a filter that was changed meanwhile, or a page that was closed. Any thread may ask. ``Jobs.close``
ends all of them and waits for that, so that a dataset can be closed afterwards.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

from headrace.errors import ClosedError

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

__all__ = ["Job", "Jobs", "ask_for"]

_PATIENCE_S = 10.0
_FIRST_WAIT_S = 0.3
_UNASKED_S = 1.0  # a page that wants a job asks more often than this
_MOST = 4
_MOST_BYTES = 48 << 20


class _Unwanted(Exception):  # no error: nobody wants the result any more
    pass


class Job:
    """One piece of work; ``function`` gets the job and gives the result."""

    def __init__(self, function: Callable[[Job], Any]) -> None:
        self.done, self.total = 0, 0
        self.result: Any = None
        self.error: BaseException | None = None
        self.is_cancelled = False
        self.is_started = False
        self._asked_s = time.monotonic()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(function,), name="headrace-view-job", daemon=True)

    def start(self) -> None:
        """Begin."""
        self.is_started = True
        self._thread.start()

    def _run(self, function: Callable[[Job], Any]) -> None:
        try:
            self.result = function(self)
        except _Unwanted:
            self.is_cancelled = True
        except BaseException as error:  # it is raised where the result is asked for
            self.error = error
        self._ended.set()

    def check(self, done: int, total: int | None, size_bytes: int = 0) -> None:
        """Say how far it is; called by the work itself, as progress is."""
        self.done, self.total = done, total or 0
        if self.is_cancelled or self.unasked_s > _PATIENCE_S:
            raise _Unwanted

    def cancel(self) -> None:
        """End it at its next check."""
        self.is_cancelled = True

    @property
    def is_running(self) -> bool:
        """It has not ended; perhaps it has not begun."""
        return not self._ended.is_set()

    @property
    def unasked_s(self) -> float:
        """For how long nobody has asked for it."""
        return time.monotonic() - self._asked_s

    def wait(self, seconds: float) -> bool:
        """Whether it has ended, after so long at most."""
        self._asked_s = time.monotonic()
        return self._ended.wait(seconds)

    def join(self) -> None:
        """Wait until it has ended; one that has not begun never will."""
        if self.is_started:
            self._thread.join()


class Jobs:
    """The jobs of one dataset, by what they are for; results stay until others need the room.

    Args:
        most: jobs that run at a time; further ones wait for their turn, or take that of one that nobody asks for.
        most_bytes: what all results may take together; the one that was asked for last always stays.
    """

    def __init__(self, *, most: int = _MOST, most_bytes: int = _MOST_BYTES) -> None:
        self._most, self._most_bytes = most, most_bytes
        self._jobs: dict[Hashable, Job] = {}
        self._leaving: list[Job] = []  # cancelled, and not at their next check yet
        self._is_closed = False
        self._lock = threading.Lock()

    def ask(self, key: Hashable, function: Callable[[Job], Any]) -> Job:
        """The job of a key, begun if it is new; waited for a moment. What went wrong in it is raised, once."""
        with self._lock:
            if self._is_closed:
                raise ClosedError("the viewer is closed")
            self._forget()
            job = self._jobs.pop(key, None) or Job(function)
            self._jobs[key] = job  # the last is the newest
            self._advance()
        if job.wait(_FIRST_WAIT_S):
            with self._lock:
                if job.error is not None:
                    self._jobs.pop(key, None)
                    raise job.error
                self._make_room()
        return job

    def close(self) -> None:
        """End all jobs, and return when nothing is read any more."""
        with self._lock:
            self._is_closed = True
            found = [*self._jobs.values(), *self._leaving]
            self._jobs, self._leaving = {}, []
        for job in found:
            job.cancel()
        for job in found:
            job.join()

    def _forget(self) -> None:
        """Jobs without a result that nobody waits for."""
        self._leaving = [job for job in self._leaving if job.is_running]
        for key, job in list(self._jobs.items()):
            is_left = (job.error is not None or not job.is_started) and job.unasked_s > _PATIENCE_S
            if job.is_cancelled or is_left:
                del self._jobs[key]

    def _advance(self) -> None:
        """Begin what waits, where there is room; a job that no page asks for any more makes room."""
        running = {key: job for key, job in self._jobs.items() if job.is_started and job.is_running}
        for key, job in self._jobs.items():
            if job.is_started:
                continue
            if len(running) >= self._most and not self._give_up_one(running):
                return
            job.start()
            running[key] = job
        for key in [key for key, job in self._jobs.items() if job.is_cancelled]:
            del self._jobs[key]

    def _give_up_one(self, running: dict[Hashable, Job]) -> bool:
        key = max(running, key=lambda one: running[one].unasked_s)
        if running[key].unasked_s < _UNASKED_S:
            return False
        job = running.pop(key)
        job.cancel()
        self._leaving.append(job)
        return True

    def _make_room(self) -> None:
        sizes = {key: _size_bytes(job.result) for key, job in self._jobs.items() if job.result is not None}
        for key in list(sizes)[:-1]:
            if sum(sizes.values()) > self._most_bytes:
                del sizes[key], self._jobs[key]


def _size_bytes(result: Any) -> int:
    """What a result takes: arrays count, and what a page is told is small."""
    return int(getattr(result, "nbytes", 1 << 10))


def ask_for(jobs: Jobs, key: Hashable, function: Callable[[Job], dict[str, Any]]) -> dict[str, Any]:
    """The answer of a job for a page, ``state`` being "ready"; or how far the job is, ``state`` being "working".

    Example:
        >>> ask_for(Jobs(), "sum", lambda job: {"sum": 1 + 2})
        {'state': 'ready', 'sum': 3}
    """
    job = jobs.ask(key, function)
    if job.is_running or job.is_cancelled:
        return {"state": "working", "done": job.done, "total": job.total}
    return {"state": "ready", **job.result}
