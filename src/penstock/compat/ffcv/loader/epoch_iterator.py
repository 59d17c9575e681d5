"""One epoch: batches computed ahead by penstock's engine."""

from __future__ import annotations

import contextlib
from collections import deque
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch

from penstock.loader.engine import Prefetcher
from penstock.loader.slots import SlotPool
from penstock.ops import Draws
from penstock.storage import allocate_pages, check_mapping

if TYPE_CHECKING:
    import numpy.typing as npt

    from penstock.compat.ffcv.loader.loader import Loader

__all__ = ["EpochIterator"]


def _pinned(size_bytes: int) -> npt.NDArray[np.uint8]:
    pinned: npt.NDArray[np.uint8] = torch.empty(size_bytes, dtype=torch.uint8, pin_memory=True).numpy()
    return pinned


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
        is_cuda = any(node.state.device.type == "cuda" for node in loader.graph.nodes)
        self._slots = SlotPool(loader.batches_ahead + 2, _pinned if is_cuda else allocate_pages)
        self._stream = torch.cuda.Stream() if is_cuda else None
        self._travelling: deque[tuple[Any, Any]] = deque()

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
        if self._stream is None:
            return self._graph.finish(parts, indices, self._slots, self._context.state), None
        with torch.cuda.stream(self._stream):
            results = self._graph.finish(parts, indices, self._slots, self._context.state)
            event = torch.cuda.Event()
            event.record(self._stream)
        while self._travelling and self._travelling[0][0].query():
            self._travelling.popleft()
        self._travelling.append((event, parts))  # pinned memory stays until its copy is done
        return results, event


class EpochIterator:
    """Gives the batches of one epoch as tuples; every batch has its own memory."""

    def __init__(self, loader: Loader, order: Any, epoch: int) -> None:
        count = len(loader) if len(order) else 0
        size = loader.batch_size
        self._stack = contextlib.ExitStack()
        batches = [order[i * size : (i + 1) * size] for i in range(count)]
        context = self._stack.enter_context(loader.memory_manager.schedule_epoch(batches))
        maker: Any = _Maker(loader, order, epoch, context)
        self._batches = self._stack.enter_context(Prefetcher(maker, 0, count, loader.batches_ahead))

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> tuple[Any, ...]:
        try:
            made: Any = next(self._batches)
        except BaseException:
            self.close()
            raise
        results, event = made
        if event is not None:
            stream = torch.cuda.current_stream()
            stream.wait_event(event)
            for value in results:
                if isinstance(value, torch.Tensor) and value.is_cuda:
                    value.record_stream(stream)
        batch: tuple[Any, ...] = results
        return batch

    def close(self) -> None:
        """End the threads; does nothing the second time."""
        self._stack.close()

    def __del__(self) -> None:
        with contextlib.suppress(AttributeError):
            self.close()
