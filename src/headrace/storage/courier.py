"""The one thread of a process that talks to object stores.

Contract. ``hire`` starts the thread or shares the one that runs; every ``hire`` is followed by one ``dismiss``, and
with the last of them the thread ends. Work is given as coroutines by ``submit``; whoever waits for an answer waits for
a future, so that Ctrl-C is heard. When the thread ends, or the interpreter does, what is still under way is cancelled,
and whoever waits for it gets a ClosedError. So does whoever begins something when the interpreter ends: a daemon thread
that went on would have requests under way when it is gone. A finalizer must take no lock, because the garbage collector
calls it in the middle of anything: ``call`` only leaves a note for the thread, which does the work then. A forked
process has neither this thread nor those of obstore: ``hire`` and ``submit`` raise RemoteError there instead of waiting
for ever.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import os
import sys
import threading
import time
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar

from headrace.errors import ClosedError, RemoteError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

__all__ = ["Courier", "check_process", "end_courier", "finished", "result_of", "run"]

T = TypeVar("T")
_REQUESTS = 16  # at a time
_DISK_THREADS = 4  # which read and write the cache on the local disk
_LAST_S = 2.0  # for requests that are under way when the thread ends
_GRACE_S = 0.3  # until obstore's threads have seen that nobody waits any more

_SETTLED_S = 0.2  # after a request: until the thread of obstore's that told its end has let go of Python
_BUSY_S = 1.0  # longer, while such a thread is seen in Python: the machine has no time for it
_POLL_S = 0.005

_requests: set[asyncio.Task[Any]] = set()  # under way, of all couriers: one may end while the next begins
_last_end_s = -_SETTLED_S  # when the last request ended


async def finished(request: Coroutine[Any, Any, T]) -> T:
    """Await a request of obstore so that it comes to its end, also when nobody waits for it any more.

    A thread of obstore's tells Python how a request has ended, also that it was cancelled. If the interpreter ends
    before that, or while that thread still holds something of Python's, the process is aborted. So requests are not
    cancelled, the courier waits for them before it goes, and the interpreter ends a moment after the last of them, when
    no such thread is seen in Python any more.
    """
    task = asyncio.ensure_future(request)
    _requests.add(task)
    task.add_done_callback(_let_go)
    return await asyncio.shield(task)


def _let_go(task: asyncio.Task[Any]) -> None:
    global _last_end_s
    _requests.discard(task)
    _last_end_s = time.monotonic()
    if not task.cancelled():
        task.exception()  # it was told to whoever still waited


class Courier:
    """A thread with an event loop, and a few threads for what blocks."""

    _lock = threading.Lock()
    _now: Courier | None = None
    _process: int | None = None  # in which obstore was used
    _is_exiting = False  # the interpreter is

    def __init__(self) -> None:
        self._users = 0
        self._pid = os.getpid()
        self._is_ending = self._is_over = False
        self._end_lock = threading.Lock()
        self._loop = asyncio.new_event_loop()
        self.disk = ThreadPoolExecutor(_DISK_THREADS, thread_name_prefix="headrace-remote-disk")
        self.gates = {is_urgent: asyncio.Semaphore(_REQUESTS) for is_urgent in (False, True)}
        self._thread = threading.Thread(target=self._work, name="headrace-remote", daemon=True)

    @classmethod
    def hire(cls) -> Courier:
        """The courier of this process, until it is dismissed."""
        check_process()
        with cls._lock:
            if cls._is_exiting:
                raise ClosedError("nothing can be brought from a store while the program ends")
            cls._process = os.getpid()
            if cls._now is None:
                made = cls()
                made._thread.start()
                cls._now = made
            cls._now._users += 1
            return cls._now

    def dismiss(self) -> None:
        """Not needed any more by one of those who hired; the last one waits until the thread is gone."""
        if self._leave() and threading.current_thread() is not self._thread:
            self._thread.join()

    def dismiss_later(self) -> None:
        """The same for a finalizer."""
        self.call(self._leave)

    def _leave(self) -> bool:
        with Courier._lock:
            self._users -= 1
            if self._users > 0:
                return False
            self._end()
            return True

    def _end(self) -> None:
        if self._is_ending:
            return  # to stop the loop twice would cut off what is cancelled
        self._is_ending = True
        if Courier._now is self:
            Courier._now = None
        with contextlib.suppress(RuntimeError):  # closed already
            self._loop.call_soon_threadsafe(self._loop.stop)

    def call(self, action: Callable[..., object], *args: object) -> None:
        """Let the thread do something that does not block; for finalizers. Does nothing when it has ended."""
        if self._pid != os.getpid():
            return
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(action, *args)

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Begin something; see ``result_of``."""
        try:
            check_process()
            with self._end_lock:
                if self._is_over:
                    raise ClosedError("the connection to the store is closed")
                return asyncio.run_coroutine_threadsafe(work, self._loop)
        except BaseException:
            work.close()
            raise

    async def on_disk(self, function: Callable[..., T], *args: Any) -> T:
        """Call what blocks, in another thread."""
        return await asyncio.get_running_loop().run_in_executor(self.disk, function, *args)

    def _work(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
            with self._end_lock:
                self._is_over = True
            self._loop.run_until_complete(self._cancel_all())
        finally:
            self.disk.shutdown()
            self._loop.close()

    async def _cancel_all(self) -> None:
        requests = {task for task in _requests.copy() if task.get_loop() is self._loop}
        for task in (others := asyncio.all_tasks() - {asyncio.current_task()} - requests):
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        _, late = await asyncio.wait(requests, timeout=_LAST_S) if requests else (None, ())
        for task in late:
            task.cancel()
        if late:
            await asyncio.gather(*late, return_exceptions=True)
            await asyncio.sleep(_GRACE_S)


def check_process() -> None:
    """Raise RemoteError in a process that was forked after obstore was used."""
    if Courier._process not in (None, os.getpid()):
        raise RemoteError(
            "object store",
            problem="this process was forked from one that reads from an object store, and has not its connections",
            fix="Start processes by spawn or forkserver, not by fork, for instance with "
            "multiprocessing_context='spawn'.",
        )


def result_of(future: Future[T], timeout_s: float | None = None) -> T:
    """What a future brings; ClosedError when the courier ended before."""
    try:
        return future.result(timeout_s)
    except CancelledError:
        raise ClosedError("the connection to the store was closed while something was read from it") from None


def run(make: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Do one thing and wait for it."""
    courier = Courier.hire()
    try:
        return result_of(courier.submit(make()))
    finally:
        courier.dismiss()


@atexit.register
def _exit() -> None:
    Courier._is_exiting = True
    end_courier()


def end_courier() -> None:
    """Cancel everything that is under way, and wait until the thread is gone; for the end of the interpreter."""
    with Courier._lock:
        courier = Courier._now
        if courier is not None:
            courier._end()
    if courier is not None:
        _join(courier._thread)
    time.sleep(max(0.0, _last_end_s + _SETTLED_S - time.monotonic()))
    if Courier._process == os.getpid():
        _wait_for_strangers()


def _join(thread: threading.Thread) -> None:
    """Wait for the courier's thread, which does not take long. To leave it alone would abort the process."""
    while thread.is_alive():
        with contextlib.suppress(KeyboardInterrupt):
            thread.join()


def _wait_for_strangers() -> None:
    """Wait until no thread that was not begun by Python runs Python: those are obstore's, about to tell of an end."""
    deadline = time.monotonic() + _BUSY_S
    while time.monotonic() < deadline:
        known = {thread.ident for thread in threading.enumerate()}
        if not sys._current_frames().keys() - known:
            return
        time.sleep(_POLL_S)


def _forget_after_fork() -> None:
    Courier._lock = threading.Lock()
    Courier._now = None


os.register_at_fork(after_in_child=_forget_after_fork)
