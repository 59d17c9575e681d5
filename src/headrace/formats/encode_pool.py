"""Workers that fetch and encode samples: inline, threads or forked processes.

Contract. The calling thread draws work, keeps a bounded number of blocks under way, takes the results in order and
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
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from headrace.errors import WriteError
from headrace.formats.contract import can_fetch_many, can_lend
from headrace.formats.lent_columns import gives_columns
from headrace.formats.process_pool import interrupt_held, open_processes
from headrace.formats.sample_size import size_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from headrace.formats.lent_columns import LentColumns
    from headrace.formats.write import Block
    from headrace.types import SampleBlocks, SampleSequence

__all__ = ["Encode", "Pending", "Work", "open_pool"]


_GRACE_S = 2.0
_FETCHED_BYTES = 4 << 20
_FETCHED_SAMPLES = 256  # small samples, too: those that follow may be large
Result = TypeVar("Result")
ResultOut = TypeVar("ResultOut", covariant=True)


class Encode(Protocol[ResultOut]):
    """What is done to the samples of a block, usually a writer's encoder."""

    def __call__(self, samples: Iterable[Any], *, first_index: int) -> ResultOut:
        """Take samples that will stand from ``first_index`` on."""
        ...


class Pending(Protocol[ResultOut]):
    """A block under way."""

    def result(self) -> ResultOut:
        """Wait for it; raises what encoding it raised."""
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
class Work(Generic[Result]):
    """Fetches and encodes one block."""

    encoder: Encode[Result]
    dataset: SampleSequence | None
    stop: _StopFlag = field(default_factory=_StopFlag)
    usual: list[int] = field(default_factory=lambda: [_FETCHED_BYTES])
    """Bytes of a sample that was fetched, roughly; at first one is fetched alone, which tells."""
    takes_lent: bool = False
    """The encoder takes bytes in memory that is lent to it."""

    def __call__(self, block: Block) -> Result:
        """Encode the block's samples."""
        try:
            return self.encoder(self._columns(block) or self._samples(block), first_index=block.first_index)
        except StopIteration as error:  # whoever waits for the block could take it for the end of the samples
            problem = f"one of the samples from {block.first_index} on raised StopIteration"
            raise WriteError(problem, sample=block.first_index) from error

    def _columns(self, block: Block) -> LentColumns | None:
        if block.samples is None and self.takes_lent and gives_columns(self.dataset):
            with contextlib.suppress(Exception):  # one of them cannot be read; sample by sample it is told which
                return self.dataset.lend_columns(block.sources)
        return None

    def _samples(self, block: Block) -> Iterator[Any]:
        for sample in self._fetched(block) if block.samples is None else block.samples:
            if self.stop.is_set():
                raise CancelledError
            yield sample

    def _fetched(self, block: Block) -> Iterator[Any]:
        # Few at a time: a sample may be a hundred times larger before it is encoded.
        done = 0
        while done < len(block.sources):
            count = min(_FETCHED_SAMPLES, max(1, _FETCHED_BYTES // self.usual[0]))
            first, many = done, block.sources[done : done + count]
            if len(many) > 1 and can_fetch_many(self.dataset):
                with contextlib.suppress(Exception):  # one of them cannot be read; alone it tells which
                    for sample in self._fetch_many(self.dataset, many):
                        done += 1
                        yield sample
                    self._note_size(sample, done - first)
            if done == first:
                sample = self._fetch(block.sources[done], block.first_index + done)
                done += 1
                yield sample
                self._note_size(sample, 1)

    def _fetch_many(self, dataset: SampleBlocks, sources: list[int]) -> Iterable[Any]:
        return dataset.lend(sources) if self.takes_lent and can_lend(dataset) else dataset.__getitems__(sources)

    def _note_size(self, last: Any, count: int) -> None:
        self.usual[0] = max(1, size_of(last), self.usual[0] >> min(count, 32))

    def _fetch(self, source: int, index: int) -> Any:
        assert self.dataset is not None  # only a block of an iterator brings its samples along
        try:
            return self.dataset[source]
        except Exception as error:
            place = f"sample {index}" if index == source else f"sample {index} (index {source} of the source)"
            problem = f"{place} could not be fetched: {type(error).__name__}: {error}"
            raise WriteError(problem, sample=index, source=source) from error


@dataclass(frozen=True, slots=True)
class _Done(Generic[Result]):
    chunk: Result

    def result(self) -> Result:
        return self.chunk


class _Ticket(Generic[Result]):
    """A block for a thread. Its queue is written in C: unlike a lock in Python, Ctrl-C cannot leave it locked."""

    def __init__(self, block: Block) -> None:
        self.block = block
        self.answer: SimpleQueue[tuple[Result | None, BaseException | None]] = SimpleQueue()

    def result(self) -> Result:
        chunk, error = self.answer.get()
        if error is not None:
            raise error
        assert chunk is not None
        return chunk


class _Threads(Generic[Result]):
    """Threads that encode blocks in the order they were given (concurrent.futures can hang for ever after Ctrl-C)."""

    def __init__(self, count: int, run: Callable[[Block], Result]) -> None:
        self._tickets: SimpleQueue[_Ticket[Result] | None] = SimpleQueue()
        names = [f"headrace-write-{i}" for i in range(count)]
        self._threads = [threading.Thread(target=_work_off, args=(self._tickets, run), name=name) for name in names]
        with interrupt_held():
            for thread in self._threads:
                thread.start()

    def submit(self, block: Block) -> _Ticket[Result]:
        """Put a block behind the others."""
        ticket: _Ticket[Result] = _Ticket(block)
        self._tickets.put(ticket)
        return ticket

    def close(self) -> None:
        """Wait for all blocks and end the threads."""
        for _ in self._threads:
            self._tickets.put(None)
        for thread in self._threads:
            thread.join()


def _work_off(tickets: SimpleQueue[_Ticket[Result] | None], run: Callable[[Block], Result]) -> None:
    while (ticket := tickets.get()) is not None:
        try:
            ticket.answer.put((run(ticket.block), None))
        except BaseException as error:
            ticket.answer.put((None, error))


@contextlib.contextmanager
def open_pool(
    workers: int, kind: str, work: Work[Result], *, advice: str
) -> Iterator[Callable[[Block], Pending[Result]]]:
    """Give a function that starts a block; leaving the block ends all workers.

    Args:
        workers: how many.
        kind: ``"thread"`` or ``"process"``.
        work: what they do.
        advice: what the caller's user can do when a process is killed.
    """
    if workers <= 1 and kind == "thread":
        yield lambda block: _Done(work(block))
        return
    with contextlib.ExitStack() as stack:
        run: Callable[[Block], Result] = work
        kill: Callable[[], None] = _nothing
        if kind == "process":  # forked before the first thread starts; each thread then waits for one process
            processes = stack.enter_context(open_processes(max(1, workers), work, advice=advice))
            run, kill = processes.call, processes.kill
        threads = _Threads(max(1, workers), run)
        stack.callback(_shut_down, threads, work, kill)
        yield threads.submit


def _nothing() -> None:
    """Threads cannot be killed; they stop at the next sample."""


def _shut_down(threads: _Threads[Result], work: Work[Result], kill: Callable[[], None]) -> None:
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
