"""Long work of the viewer: it runs in a thread of its own, can be stopped, and says how far it is.

The state is on the server, so a page that is loaded again finds it as it is. Any thread may call any method. A run ends
as ``done``, as ``stopped`` when somebody asked for that, or as ``failed`` with a text; the server goes on.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["BackgroundTask", "RunState", "StopAskedError"]

RunState = Literal["idle", "waiting", "running", "stopping", "stopped", "done", "failed"]
_ACTIVE = ("waiting", "running", "stopping")
_AT_ONCE = threading.BoundedSemaphore(2)  # more would only take the disk and the cores from each other
_WAIT_S = 0.1


class StopAskedError(Exception):
    """Somebody wants the work to end; raised where it says how far it is."""


class BackgroundTask:
    """One kind of work, which runs at most once at a time.

    Args:
        work: is given the task, and calls it as ``Progress`` is called.

    Example:
        >>> task = BackgroundTask(lambda task: task(3, 3, 100))
        >>> task.start(), task.join(), task.facts()["state"], task.facts()["done"]
        (True, None, 'done', 3)
    """

    def __init__(self, work: Callable[[BackgroundTask], None]) -> None:
        self._work = work
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._stop = threading.Event()
        self._state: RunState = "idle"
        self._error = ""
        self._advance: tuple[int, int | None, int] = (0, None, 0)
        self._start_s = self._end_s = 0.0

    @property
    def state(self) -> RunState:
        """What it does at the moment."""
        return self._state

    @property
    def is_active(self) -> bool:
        """It runs, or is about to."""
        return self._state in _ACTIVE

    def start(self) -> bool:
        """Begin anew; False where it runs already."""
        with self._lock:
            if self.is_active:
                return False
            self._stop = threading.Event()
            self._state, self._error, self._advance = "waiting", "", (0, None, 0)
            self._start_s = time.monotonic()
            self._thread = threading.Thread(target=self._run, args=(self._stop,), name="viewer work", daemon=True)
            self._thread.start()
            return True

    def stop(self) -> bool:
        """Ask it to end, which it does at the next chance; False where it does not run."""
        with self._lock:
            if not self.is_active:
                return False
            self._state = "stopping"
            self._stop.set()
            return True

    def join(self, timeout_s: float | None = None) -> None:
        """Wait until it has ended."""
        thread = self._thread
        if thread is not None:
            thread.join(timeout_s)

    def __call__(self, done: int, total: int | None, size_bytes: int) -> None:
        """Advance; raises StopAskedError when the work should end."""
        self._advance = (done, total, size_bytes)
        if self._stop.is_set():
            raise StopAskedError

    def facts(self) -> dict[str, Any]:
        """State, counts, rate and time left, for a page."""
        done, total, size_bytes = self._advance
        end_s = time.monotonic() if self.is_active else self._end_s
        elapsed_s = max(end_s - self._start_s, 0.0) if self._state != "idle" else 0.0
        rate = done / elapsed_s if elapsed_s > 0 else 0.0
        is_measured = total is not None and rate > 0 and self._state == "running"
        return {
            "state": self._state,
            "error": self._error,
            "done": done,
            "total": total,
            "size_bytes": size_bytes,
            "elapsed_s": elapsed_s,
            "rate": rate,
            "left_s": max((total or 0) - done, 0) / rate if is_measured else None,
        }

    def _run(self, stop: threading.Event) -> None:
        state: RunState
        try:
            self._wait_for_turn(stop)
            try:
                self._begin()
                self._work(self)
            finally:
                _AT_ONCE.release()
            state, error = "done", ""
        except StopAskedError:
            state, error = "stopped", ""
        except Exception as problem:  # whatever it is, the page says so and the server goes on
            state, error = "failed", f"{type(problem).__name__}: {problem}" if not str(problem) else str(problem)
        with self._lock:
            self._state, self._error, self._end_s = state, error, time.monotonic()

    def _wait_for_turn(self, stop: threading.Event) -> None:
        while not _AT_ONCE.acquire(timeout=_WAIT_S):
            if stop.is_set():
                raise StopAskedError

    def _begin(self) -> None:
        with self._lock:
            self._start_s = time.monotonic()
            if self._state == "waiting":
                self._state = "running"
