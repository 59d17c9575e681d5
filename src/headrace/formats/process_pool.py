"""Worker processes for the writer: forked, each with a pipe of its own.

Contract. One thread calls ``open_processes`` and stays until the block ends; any number of threads use the pool's
``call``, which blocks for the answer of one process. A process that dies, even in the middle of an answer, is seen
as the end of its pipe and raised as WorkerDiedError by the call it served; nothing ever waits for a dead process
(which is why this is not concurrent.futures: its pool reads all answers from one pipe and blocks for ever there).
Ctrl-C is answered by the parent alone. Leaving the block ends all processes; they also end when the parent does.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import pickle
import signal
import threading
import traceback
import warnings
from dataclasses import dataclass
from multiprocessing import get_context
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from headrace.errors import WorkerDiedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from multiprocessing.connection import Connection
    from multiprocessing.context import ForkProcess

__all__ = ["ProcessPool", "can_travel", "interrupt_held", "open_processes"]

_PR_SET_PDEATHSIG = 1
_JOIN_S = 1.0


class _WorkerTraceback(Exception):
    """Where an exception came from, in the words of the process it came from."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


@dataclass(frozen=True, slots=True)
class _Failure:
    error: BaseException
    cause: BaseException | None
    text: str


@dataclass(frozen=True, slots=True)
class _Worker:
    process: ForkProcess
    pipe: Connection


class ProcessPool:
    """Processes that all run the same function; ``advice`` is for users when one of them dies."""

    def __init__(self, advice: str) -> None:
        self._advice = advice
        self._workers: list[_Worker] = []
        self._idle: SimpleQueue[_Worker] = SimpleQueue()

    def add(self, worker: _Worker) -> None:
        """Take a process in."""
        self._workers.append(worker)
        self._idle.put(worker)

    def call(self, argument: Any) -> Any:
        """Run the function in a process that is idle; raises what it raises there."""
        worker = self._idle.get()
        try:
            worker.pipe.send(argument)
            answer = worker.pipe.recv()
        except (EOFError, OSError) as error:
            raise WorkerDiedError(self._advice) from error
        finally:
            self._idle.put(worker)
        if isinstance(answer, _Failure):
            _raise(answer)
        return answer

    def kill(self) -> None:
        """End all processes at once; calls under way fail."""
        for worker in self._workers:
            worker.process.kill()

    def close(self) -> None:
        """End all processes; no call may be under way."""
        for worker in self._workers:
            worker.pipe.close()
        for worker in self._workers:
            worker.process.join(_JOIN_S)
            if worker.process.is_alive():
                worker.process.kill()
                worker.process.join()
            worker.process.close()


def _raise(failure: _Failure) -> None:
    origin = _WorkerTraceback(failure.text)
    if failure.cause is None:
        raise failure.error from origin
    failure.cause.__cause__ = origin
    raise failure.error from failure.cause


@contextlib.contextmanager
def open_processes(
    count: int, function: Callable[[Any], Any], *, advice: str = "Try fewer workers."
) -> Iterator[ProcessPool]:
    """Fork ``count`` processes that run a function; it needs no pickling, arguments and results do."""
    pool = ProcessPool(advice)
    try:
        with interrupt_held():
            for _ in range(count):
                pool.add(_start(function))
        yield pool
    finally:
        pool.close()


def _start(function: Callable[[Any], Any]) -> _Worker:
    context = get_context("fork")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(function, theirs, ours, os.getpid()), name="headrace-write")
    with warnings.catch_warnings():
        # Python warns about fork in a process with threads; the workers use none of the parent's.
        warnings.simplefilter("ignore", DeprecationWarning)
        process.start()
    theirs.close()  # before the next fork: else the next process would keep this pipe open
    return _Worker(process, ours)


def _serve(function: Callable[[Any], Any], pipe: Connection, other_end: Connection, parent: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        return
    other_end.close()
    while True:
        try:
            argument = pipe.recv()
        except (EOFError, OSError):
            return
        try:
            answer = function(argument)
        except BaseException as error:
            answer = _failure_of(error)
        try:
            pipe.send(answer)
        except OSError:
            return


def _failure_of(error: BaseException) -> _Failure:
    text = "".join(traceback.format_exception(error))
    cause = error.__cause__ if can_travel(error.__cause__) else None
    if not can_travel(error):
        error = RuntimeError(f"{type(error).__name__}: {error}")
    return _Failure(error, cause, text)


def can_travel(error: BaseException | None) -> bool:
    """An exception can be sent to another process."""
    # An exception with an __init__ of its own pickles and then fails to unpickle, in the middle of the parent.
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return False
    return True


@contextlib.contextmanager
def interrupt_held() -> Iterator[None]:
    """Put off Ctrl-C until the end of the block: Python loses one that arrives while it forks."""
    before = signal.getsignal(signal.SIGINT)
    if before is None or threading.current_thread() is not threading.main_thread():
        yield
        return
    held: list[int] = []
    signal.signal(signal.SIGINT, lambda number, _: held.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if held:
            signal.raise_signal(signal.SIGINT)
