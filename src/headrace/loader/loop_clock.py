"""The consumer's side of the timings: how long it waits, how long its loop lasts, what sending costs."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.loader.engine import Prefetcher
    from headrace.loader.groups import SingleBatches
    from headrace.loader.stats import LoaderStats
    from headrace.loader.trace import Trace
    from headrace.types import Batch, Output

__all__ = ["LoopClock"]


class LoopClock:
    """Times one loop for the stats; used by the consumer's thread alone.

    Args:
        stats: of the loader.
        batches: what makes them; knows how long it was idle.
        begun_s: when the loop began; the threads have been at work since, and the first batch is waited for.
        trace: notes the waits, where a trace is made.
    """

    def __init__(
        self, stats: LoaderStats, batches: Prefetcher[Batch] | SingleBatches, begun_s: float, trace: Trace | None = None
    ) -> None:
        self._stats = stats
        self._batches = batches
        self._trace = trace
        self._last_s = self._asked_s = begun_s
        self._is_first = True
        self._idle_s = 0.0

    def ask(self) -> None:
        """The consumer asks for a batch."""
        if not self._is_first:
            self._asked_s = self._advance()
        self._is_first = False

    def send(self, output: Output, batch: Batch, modules: Mapping[str, tuple[Any, ...]]) -> Any:
        """Begin the way of a batch to the device."""
        start_s = time.perf_counter()
        sent = output.send(batch, modules)
        self._stats.stages["copy"] += time.perf_counter() - start_s
        return sent

    def receive(self, samples: int, step: int) -> None:
        """The consumer gets a batch."""
        stats, now_s = self._stats, self._advance()
        stats.wait_s += now_s - self._asked_s
        stats.batches += 1
        stats.samples += samples
        idle_s = self._batches.idle_s
        stats.idle_s += idle_s - self._idle_s
        self._idle_s = idle_s
        if self._trace is not None:
            self._trace.note("wait", self._asked_s, now_s, step)

    def _advance(self) -> float:
        now_s = time.perf_counter()
        self._stats.loop_s += now_s - self._last_s
        self._last_s = now_s
        return now_s
