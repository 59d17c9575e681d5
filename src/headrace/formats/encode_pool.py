"""Workers that fetch and encode samples: inline, threads or forked processes.

Contract. The calling thread draws work, keeps a bounded number of jobs under way, takes the results in order and
hands them to the writer; workers fetch (indexable datasets) and encode. A failure anywhere is raised in the calling
thread, with the sample's index and the original traceback; work that has not begun is dropped, workers stop at the
next sample (a process that does not is killed), and the writer is aborted, so nothing is left behind. Ctrl-C and a
worker that was killed end the same way.
"""

from __future__ import annotations

import contextlib
import mmap
import threading
from concurrent.futures import CancelledError
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Protocol

from headrace.errors import WriteError
from headrace.formats.process_pool import interrupt_held, open_processes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from headrace.formats.write import Job
    from headrace.types import EncodedChunk

__all__ = ["Pending", "Work", "open_pool"]


_GRACE_S = 2.0


class Pending(Protocol):
    """A job under way."""

    def result(self) -> EncodedChunk:
        """Wait for the job; raises what the job raised."""
        ...


class _StopFlag:
    """Set once, seen by all threads and by forked processes: it lives in shared memory."""

    def __init__(self) -> None:
        self._byte = mmap.mmap(-1, 1)

    def set(self) -> None:
        self._byte[0] = 1

    def is_set(self) -> bool:
        return self._byte[0] != 0


@dataclass(frozen=True, slots=True)
class Work:
    """Fetches and encodes one job."""

    encoder: Any
    dataset: Any
    stop: _StopFlag = field(default_factory=_StopFlag)

    def __call__(self, job: Job) -> EncodedChunk:
        """Encode the job's samples."""
        chunk: EncodedChunk = self.encoder(self._samples(job), first_index=job.first_index)
        return chunk

    def _samples(self, job: Job) -> Iterator[Any]:
        # One at a time: a sample may be a hundred times larger before it is encoded.
        for k, source in enumerate(job.sources):
            if self.stop.is_set():
                raise CancelledError
            yield self._fetch(source, job.first_index + k) if job.samples is None else job.samples[k]

    def _fetch(self, source: int, index: int) -> Any:
        try:
            return self.dataset[source]
        except Exception as error:
            place = f"sample {index}" if index == source else f"sample {index} (index {source} of the source)"
            problem = f"{place} could not be fetched: {type(error).__name__}: {error}"
            raise WriteError(problem, sample=index, source=source) from error


@dataclass(frozen=True, slots=True)
class _Done:
    chunk: EncodedChunk

    def result(self) -> EncodedChunk:
        return self.chunk


class _Ticket:
    """A job of a thread. Its queue is written in C: unlike a lock in Python, Ctrl-C cannot leave it locked."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.answer: SimpleQueue[tuple[EncodedChunk | None, BaseException | None]] = SimpleQueue()

    def result(self) -> EncodedChunk:
        chunk, error = self.answer.get()
        if error is not None:
            raise error
        assert chunk is not None
        return chunk


class _Threads:
    """Threads that run jobs in the order they were given (concurrent.futures can hang for ever after Ctrl-C)."""

    def __init__(self, count: int, run: Callable[[Job], EncodedChunk]) -> None:
        self._tickets: SimpleQueue[_Ticket | None] = SimpleQueue()
        names = [f"headrace-write-{i}" for i in range(count)]
        self._threads = [threading.Thread(target=_work_off, args=(self._tickets, run), name=name) for name in names]
        with interrupt_held():
            for thread in self._threads:
                thread.start()

    def submit(self, job: Job) -> _Ticket:
        """Put a job behind the others."""
        ticket = _Ticket(job)
        self._tickets.put(ticket)
        return ticket

    def close(self) -> None:
        """Wait for all jobs and end the threads."""
        for _ in self._threads:
            self._tickets.put(None)
        for thread in self._threads:
            thread.join()


def _work_off(tickets: SimpleQueue[_Ticket | None], run: Callable[[Job], EncodedChunk]) -> None:
    while (ticket := tickets.get()) is not None:
        try:
            ticket.answer.put((run(ticket.job), None))
        except BaseException as error:
            ticket.answer.put((None, error))


@contextlib.contextmanager
def open_pool(workers: int, kind: str, work: Work, *, advice: str) -> Iterator[Callable[[Job], Pending]]:
    """Give a function that starts a job; leaving the block ends all workers.

    Args:
        workers: how many.
        kind: ``"thread"`` or ``"process"``.
        work: what they do.
        advice: what the caller's user can do when a process is killed.
    """
    if workers <= 1 and kind == "thread":
        yield lambda job: _Done(work(job))
        return
    with contextlib.ExitStack() as stack:
        run: Callable[[Job], EncodedChunk] = work
        kill: Callable[[], None] = _nothing
        if kind == "process":  # forked before the first thread starts; each thread then waits for one process
            processes = stack.enter_context(open_processes(max(1, workers), work, advice=advice))
            run, kill = processes.call, processes.kill
        threads = _Threads(max(1, workers), run)
        stack.callback(_shut_down, threads, work, kill)
        yield threads.submit


def _nothing() -> None:
    """Threads cannot be killed; they stop at the next sample."""


def _shut_down(threads: _Threads, work: Work, kill: Callable[[], None]) -> None:
    # Workers stop at their next sample; a process that is still busy with one sample after a while is killed.
    work.stop.set()
    killer = threading.Timer(_GRACE_S, kill)
    killer.daemon = True
    with interrupt_held():
        killer.start()
    try:
        threads.close()
    finally:
        killer.cancel()
