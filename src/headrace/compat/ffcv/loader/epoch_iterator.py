"""One epoch: batches computed ahead by headrace's engine.

Contract. The engine's threads call ``_Maker``; the consumer calls the iterator. Where pipelines lead to GPUs, batches
lie in pinned memory and are copied on streams of their own. What a copy may still read is kept until it is done, and
the consumer's stream, not the consumer, waits for it.
"""

from __future__ import annotations

import contextlib
from collections import deque
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch

from headrace.loader.engine import Prefetcher
from headrace.loader.slots import SlotPool
from headrace.ops import Draws
from headrace.storage import allocate_pages, check_mapping

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from headrace.compat.ffcv.loader.loader import Loader

__all__ = ["EpochIterator"]


def _pinned(size_bytes: int) -> npt.NDArray[np.uint8]:
    pinned: npt.NDArray[np.uint8] = torch.empty(size_bytes, dtype=torch.uint8, pin_memory=True).numpy()
    return pinned


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

    def __init__(self, loader: Loader, order: Any, epoch: int, context: Any) -> None:
        self._graph = loader.graph
        self._order = order.astype(np.int64)
        self._batch_size = loader.batch_size
        self._seed, self._epoch = loader.seed, epoch
        self._native = loader.native
        self._context = context
        self._reader = loader.reader
        devices = {torch.device(node.state.device) for node in loader.graph.nodes}
        self.streams = _Streams({device for device in devices if device.type == "cuda"})
        self._slots = SlotPool(loader.batches_ahead + 2, _pinned if self.streams else allocate_pages)

    def begin(self, step: int) -> Any:
        """Read and decode."""
        indices = self._order[step * self._batch_size : (step + 1) * self._batch_size]

        def draws(key: int) -> Draws:
            return Draws(self._seed, self._epoch, key, indices)

        with self._context.source_of(step) as source:
            state = self._context.state
            return indices, self._graph.begin(indices, draws, self._native, self._slots, state, source)

    def finish(self, step: int, begun: Any) -> Any:
        """Run the operations that are left."""
        indices, parts = begun
        self._context.start_batch(step)
        check_mapping(self._reader.mapped, self._reader.file_name)
        if not self.streams:
            return self._graph.outputs(self._graph.finish(parts, indices, self._slots, self._context.state)), []
        with self.streams.used():
            results = self._graph.finish(parts, indices, self._slots, self._context.state)
            events = self.streams.mark([value for value in results.values() if not _is_on_gpu(value)])
        return self._graph.outputs(results), events


def _is_on_gpu(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_cuda


class EpochIterator:
    """Gives the batches of one epoch as tuples; every batch has its own memory."""

    def __init__(self, loader: Loader, order: Any, epoch: int) -> None:
        count = len(loader) if len(order) else 0
        size = loader.batch_size
        batches = [order[i * size : (i + 1) * size] for i in range(count)]
        with contextlib.ExitStack() as stack:
            context = stack.enter_context(loader.memory_manager.schedule_epoch(batches))
            maker: Any = _Maker(loader, order, epoch, context)
            stack.callback(maker.streams.close)
            on_end = stack.pop_all().close
        self._batches = Prefetcher(maker, 0, count, loader.batches_ahead, on_end=on_end)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> tuple[Any, ...]:
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

    def close(self) -> None:
        """End the threads; does nothing the second time."""
        self._batches.close()

    def __del__(self) -> None:
        with contextlib.suppress(AttributeError):
            self.close()
