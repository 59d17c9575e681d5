"""One epoch: batches computed ahead.

Contract. Usually headrace's engine makes the batches: its threads call ``_Maker``, the consumer calls the iterator.
Where pipelines lead to GPUs, batches lie in pinned memory and are copied on streams of their own. What a copy may still
read is kept until it is done, and the consumer's stream, not the consumer, waits for it.

A subclass that replaces ``run``, ``run_pipeline``, ``__next__`` or ``close`` relies on how FFCV does it: the iterator
is a thread whose ``run`` calls ``run_pipeline`` for each batch and puts slots and results into ``output_queue``, from
which ``__next__`` takes them; ``close`` sets ``terminate_event``. For these the iterator is just that, with the same
attributes. An exception in the thread is raised where the consumer unpacks what it got.
"""

from __future__ import annotations

import atexit
import contextlib
import weakref
from collections import deque
from queue import Full, Queue
from threading import Event, Thread, current_thread
from typing import TYPE_CHECKING, Any, NoReturn, Self

import torch

from headrace.compat.ffcv.utils import chunks
from headrace.compat.passed_on import pass_on
from headrace.loader.engine import Prefetcher, as_error
from headrace.storage import check_mapping

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.compat.ffcv.loader.loader import Loader
    from headrace.types import Batch

__all__ = ["QUASIRANDOM_ERROR_MSG", "EpochIterator", "select_buffer"]
pass_on(
    globals(),
    "Compiler Event Full QuasiRandom Queue Sequence TYPE_CHECKING Thread ch chunks defaultdict nullcontext",
    IS_CUDA=torch.cuda.is_available,  # asked for when it is needed: the answer may take a while
)

QUASIRANDOM_ERROR_MSG = """There is not enough memory for this order of samples. With order=OrderOption.QUASI_RANDOM the
loader needs fewer pages of the file at a time.
"""
_REPLACEABLE = ("run", "run_pipeline", "__next__", "close")
_POLL_S = 0.5


def select_buffer(buffer: Any, batch_slot: int, count: int) -> Any:
    """The part of some memory, or of each of a tuple, that belongs to a slot and to a batch of ``count`` samples."""
    if buffer is None:
        return None
    if isinstance(buffer, tuple):
        return tuple(select_buffer(one, batch_slot, count) for one in buffer)
    return buffer[batch_slot][:count]


class _Streams:
    """A stream for each GPU that pipelines lead to, and what is being copied on them."""

    def __init__(self, devices: set[Any]) -> None:
        self._streams = [torch.cuda.Stream(device=device) for device in devices]
        self._under_way: deque[tuple[list[Any], list[Any]]] = deque()

    def __bool__(self) -> bool:
        return bool(self._streams)

    @contextlib.contextmanager
    def used(self) -> Iterator[None]:
        """Work on these streams."""
        with contextlib.ExitStack() as stack:
            for stream in self._streams:
                stack.enter_context(torch.cuda.stream(stream))
            yield

    def mark(self, kept: list[Any]) -> list[tuple[Any, Any]]:
        """Streams, each with an event for the end of its work so far; until then ``kept`` stays."""
        while self._under_way and all(event.query() for event in self._under_way[0][0]):
            self._under_way.popleft()
        events = [stream.record_event() for stream in self._streams]
        self._under_way.append((events, kept))
        return list(zip(self._streams, events, strict=True))

    def close(self) -> None:
        """Wait for all copies."""
        while self._under_way:
            for event in self._under_way.popleft()[0]:
                event.synchronize()


class _Maker:
    """Makes the batches of an epoch; holds no reference to the iterator, so that it can be let go."""

    def __init__(self, loader: Loader, order: Any, context: Any) -> None:
        self._graph = loader.graph
        self._order = order
        self._batch_size = loader.batch_size
        self._draws = loader.draws_of_epoch()
        self._native = loader.native
        self._slots = loader.slots
        self._context = context
        self._reader = loader.reader
        self.streams = _Streams(loader.graph.gpus)

    def begin(self, step: int) -> Any:
        """Read and decode."""
        indices = self._order[step * self._batch_size : (step + 1) * self._batch_size]
        with self._context.source_of(step) as source:
            state = self._context.state
            return indices, self._graph.begin(indices, self._draws, self._native, self._slots, state, source)

    def finish(self, step: int, begun: Any) -> Any:
        """Run the operations that are left."""
        indices, parts = begun
        self._context.start_batch(step)
        check_mapping(self._reader.mapped, self._reader.file_name)
        if not self.streams:
            return self._graph.outputs(self._finished(parts, indices)), []
        with self.streams.used():
            results = self._finished(parts, indices)
            events = self.streams.mark([value for value in results.values() if not _is_on_gpu(value)])
        return self._graph.outputs(results), events

    def _finished(self, parts: Any, indices: Any) -> Any:
        return self._graph.finish(parts, indices, self._draws, self._slots, self._context.state)


def _is_on_gpu(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_cuda


class EpochIterator(Thread):
    """Gives the batches of one epoch as tuples; every batch has its own memory.

    Args:
        loader: whose pipelines run.
        order: the samples of the epoch; each batch has ``loader.batch_size`` of them, the last one perhaps fewer.
    """

    _batches: Prefetcher[Batch] | None = None
    closed = False

    def __init__(self, loader: Loader, order: Any) -> None:
        super().__init__(daemon=True)
        self.loader = loader
        self.order = order
        self.metadata = loader.reader.metadata
        samples = loader.checked_indices(order)
        batches = list(chunks(samples, loader.batch_size))
        self.memory_context: Any = loader.memory_manager.schedule_epoch(batches)
        if any(getattr(type(self), name) is not getattr(EpochIterator, name) for name in _REPLACEABLE):
            self._prepare_thread(batches)
        else:
            self._prepare_engine(samples, len(batches))

    def _prepare_engine(self, samples: Any, count: int) -> None:
        loader = self.loader
        loader.graph.collect_requirements()
        with contextlib.ExitStack() as stack:
            self._enter(stack)
            maker: Any = _Maker(loader, samples, self.memory_context)
            stack.callback(maker.streams.close)
            on_end = stack.pop_all().close
        self._batches = Prefetcher(maker, 0, count, loader.batches_ahead, on_end=on_end)

    def _enter(self, stack: contextlib.ExitStack) -> None:
        try:
            stack.enter_context(self.memory_context)
        except MemoryError as error:
            error.add_note(QUASIRANDOM_ERROR_MSG)
            raise

    def _prepare_thread(self, batches: list[Any]) -> None:
        loader = self.loader
        self.current_batch_slot = 0
        self.iter_ixes = iter(batches)
        self.output_queue: Queue[Any] = Queue(loader.batches_ahead)
        self.terminate_event = Event()
        slots = loader.batches_ahead + 2
        self.cuda_streams: list[Any] = [None] * slots
        if torch.cuda.is_available():
            self.current_stream = torch.cuda.current_stream()
            self.cuda_streams = [torch.cuda.Stream() for _ in range(slots)]
        with contextlib.ExitStack() as stack:
            self._enter(stack)
            stack.pop_all()  # close() leaves it
        self.storage_state = self.memory_context.state
        self.memory_allocations = loader.graph.allocate_memory(loader.batch_size, slots)
        self.start()

    def start(self) -> None:
        """Begin to make batches."""
        _running.add(self)
        super().start()

    def run(self) -> None:
        """Make the batches; the thread does this."""
        try:
            for number, indices in enumerate(self.iter_ixes):
                slot = self.current_batch_slot
                self.current_batch_slot = (slot + 1) % (self.loader.batches_ahead + 2)
                if not self._put((slot, self.run_pipeline(number, indices, slot, None))):
                    return
            self._put(None)
        except BaseException as error:
            self._put(_Failure(as_error(error)))

    def _put(self, item: Any) -> bool:
        while not self.terminate_event.is_set():
            with contextlib.suppress(Full):
                self.output_queue.put(item, timeout=_POLL_S)
                return True
        return False

    def run_pipeline(self, b_ix: int, batch_indices: Any, batch_slot: int, cuda_event: Any) -> tuple[Any, ...]:
        """Make a batch.

        Args:
            b_ix: its number in the epoch.
            batch_indices: its samples.
            batch_slot: which of the streams is used.
            cuda_event: waited for before it begins, unless it is None.
        """
        loader, stream = self.loader, self.cuda_streams[batch_slot]
        check_mapping(loader.reader.mapped, loader.reader.file_name)
        self.memory_context.start_batch(b_ix)
        with contextlib.ExitStack() as stack:
            if stream is not None:
                stack.enter_context(torch.cuda.stream(stream))
            if cuda_event is not None:
                cuda_event.wait()
            source = stack.enter_context(self.memory_context.source_of(b_ix))
            results = loader.make_batch(batch_indices, self.storage_state, source)
        if stream is not None:  # what the consumer lets go of is not used again before its stream is done with it
            for value in filter(_is_on_gpu, results):
                value.record_stream(self.current_stream)
        return results

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> tuple[Any, ...]:
        if self._batches is None:
            return self._next_of_thread()
        try:
            made: Any = next(self._batches)
        except BaseException:
            self.close()
            raise
        results, events = made
        for stream, event in events:
            torch.cuda.current_stream(stream.device).wait_event(event)
        for value in results if events else ():
            if _is_on_gpu(value):
                value.record_stream(torch.cuda.current_stream(value.device))
        batch: tuple[Any, ...] = results
        return batch

    def _next_of_thread(self) -> tuple[Any, ...]:
        made = None if self.closed else self.output_queue.get()
        if made is None:
            self.close()
            raise StopIteration
        slot, results = made
        if (stream := self.cuda_streams[slot]) is not None:
            self.current_stream.wait_stream(stream)
        batch: tuple[Any, ...] = results
        return batch

    def close(self) -> None:
        """End the threads; does nothing the second time."""
        if self._batches is not None:
            self._batches.close()
        elif not self.closed and hasattr(self, "terminate_event"):
            self.terminate_event.set()
            if self.is_alive() and self is not current_thread():
                self.join()
            self.memory_context.__exit__(None, None, None)
        self.closed = True

    def __del__(self) -> None:
        with contextlib.suppress(AttributeError):
            self.close()


class _Failure:
    """Stands in the queue for a batch that could not be made."""

    def __init__(self, error: BaseException) -> None:
        self._error = error

    def __iter__(self) -> NoReturn:
        raise self._error


# Threads must not be inside a native call when the interpreter goes away.
_running: weakref.WeakSet[EpochIterator] = weakref.WeakSet()


@atexit.register
def _end_all() -> None:
    for iterator in list(_running):
        if iterator.is_alive():
            iterator.terminate_event.set()
            iterator.join(4 * _POLL_S)
