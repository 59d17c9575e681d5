"""Work that may outlast a request: pages ask for it again and again until it is done.

A job has a thread of its own. It calls ``check`` now and then, which says how far it is and ends it when nobody has
asked for a while: a filter that was changed meanwhile, or a page that was closed.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

from headrace.viewer.shelf import BusyError

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

__all__ = ["Job", "Jobs"]

_PATIENCE_S = 10.0
_FIRST_WAIT_S = 0.3


class _Unwanted(Exception):  # no error: nobody wants the result any more
    pass


class Job:
    """One piece of work; ``function`` gets the job and gives the result."""

    def __init__(self, function: Callable[[Job], Any], *, keeps_on: bool = False) -> None:
        self.done, self.total = 0, 0
        self.result: Any = None
        self.error: BaseException | None = None
        self.is_cancelled = False
        self._asked_s = time.monotonic()
        self._keeps_on = keeps_on
        self._thread = threading.Thread(target=self._run, args=(function,), name="headrace-view-job", daemon=True)
        self._thread.start()

    def _run(self, function: Callable[[Job], Any]) -> None:
        try:
            self.result = function(self)
        except _Unwanted:
            self.is_cancelled = True
        except BaseException as error:  # it is raised where the result is asked for
            self.error = error

    def check(self, done: int, total: int | None, size_bytes: int = 0) -> None:
        """Say how far it is; called by the work itself, as progress is."""
        self.done, self.total = done, total or 0
        if self.is_cancelled or (not self._keeps_on and time.monotonic() - self._asked_s > _PATIENCE_S):
            raise _Unwanted

    def cancel(self) -> None:
        """End it at its next check."""
        self.is_cancelled = True

    @property
    def is_running(self) -> bool:
        """It has not ended."""
        return self._thread.is_alive()

    def wait(self, seconds: float) -> bool:
        """Whether it has ended, after so long at most."""
        self._asked_s = time.monotonic()
        self._thread.join(seconds)
        return not self._thread.is_alive()


class Jobs:
    """The jobs of one dataset, by what they are for; results stay until others need the room.

    Args:
        most: jobs that run at a time.
        size_bytes: what a result takes.
        most_bytes: what all results may take together; the one that was asked for last always stays.
    """

    def __init__(self, *, most: int, size_bytes: Callable[[Any], int], most_bytes: int) -> None:
        self._most, self._size_bytes, self._most_bytes = most, size_bytes, most_bytes
        self._jobs: dict[Hashable, Job] = {}
        self._lock = threading.Lock()

    def ask(self, key: Hashable, function: Callable[[Job], Any]) -> Job:
        """The job of a key, begun if it is new; waited for a moment. What went wrong in it is raised, once."""
        with self._lock:
            job = self._jobs.pop(key, None)
            if job is None or job.is_cancelled:
                if sum(one.is_running for one in self._jobs.values()) >= self._most:
                    raise BusyError("too much is searched for at a time; try again in a moment")
                job = Job(function)
            self._jobs[key] = job  # the last is the newest
        if job.wait(_FIRST_WAIT_S):
            with self._lock:
                if job.error is not None:
                    self._jobs.pop(key, None)
                    raise job.error
                self._make_room()
        return job

    def _make_room(self) -> None:
        sizes = {key: self._size_bytes(job.result) for key, job in self._jobs.items() if job.result is not None}
        for key in list(sizes)[:-1]:
            if sum(sizes.values()) > self._most_bytes:
                del sizes[key], self._jobs[key]
