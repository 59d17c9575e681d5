"""How long the stages of a batch take; cheap enough to be always on.

The threads of a loader fill one ``BatchClock`` for each part of a batch, and its sums go into ``LoaderStats``. Stages:
``read`` (finding the stored bytes, waiting for them, unpacking values that are no pictures), ``check`` (checksums),
``decode``, ``resize`` (pixels to the rows of the output: resample, flip, normalize, copy), ``ops`` (the native steps on
pixels), ``gpu`` (the call that makes pictures on a GPU), ``python`` (ops in Python), ``collate`` and ``copy`` (to the
device or the framework). The four of the native call are the seconds of all its threads together. Where a mapped file
is not in memory yet, its bytes are read when they are first touched: inside ``check`` or ``decode``.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np

from headrace.types import ImageSpans, Ragged

if TYPE_CHECKING:
    from headrace._native import LoadTimes
    from headrace.loader.trace import Trace

__all__ = ["NATIVE_STAGES", "STAGES", "BatchClock", "stored_bytes"]

NATIVE_STAGES = ("check", "decode", "resize", "ops")
STAGES = ("read", *NATIVE_STAGES, "gpu", "python", "collate", "copy")


class BatchClock:
    """Seconds by stage of one part of a batch; used by one thread at a time.

    Args:
        trace: notes every span, where a trace is made.
        step: which batch it is, for the trace.
    """

    __slots__ = ("_trace", "bytes_read", "python_ops", "seconds", "step")

    def __init__(self, trace: Trace | None = None, step: int = 0) -> None:
        self._trace = trace
        self.step = step
        self.seconds: dict[str, float] = {}
        self.python_ops: dict[str, float] = {}
        self.bytes_read = 0

    def clear(self) -> None:
        """Begin anew, for the next part of the same batch."""
        self.seconds.clear()
        self.python_ops.clear()
        self.bytes_read = 0

    def add(self, stage: str, start_s: float) -> None:
        """A stage has lasted from a moment of ``time.perf_counter`` until now."""
        end_s = time.perf_counter()
        self.seconds[stage] = self.seconds.get(stage, 0.0) + end_s - start_s
        if self._trace is not None:
            self._trace.note(stage, start_s, end_s, self.step)

    def add_python(self, name: str, start_s: float) -> None:
        """The same for an op in Python."""
        end_s = time.perf_counter()
        self.seconds["python"] = self.seconds.get("python", 0.0) + end_s - start_s
        self.python_ops[name] = self.python_ops.get(name, 0.0) + end_s - start_s
        if self._trace is not None:
            self._trace.note(name, start_s, end_s, self.step)

    def add_native(self, times: LoadTimes, start_s: float) -> None:
        """A native call on the CPU has begun at a moment, and its threads have worked so long."""
        own = self.seconds
        own["check"] = own.get("check", 0.0) + times.check_ns * 1e-9
        own["decode"] = own.get("decode", 0.0) + times.decode_ns * 1e-9
        own["resize"] = own.get("resize", 0.0) + times.resize_ns * 1e-9
        own["ops"] = own.get("ops", 0.0) + times.ops_ns * 1e-9
        if self._trace is not None:
            parts = (times.check_ns, times.decode_ns, times.resize_ns, times.ops_ns)
            seconds = {stage: ns * 1e-9 for stage, ns in zip(NATIVE_STAGES, parts, strict=True)}
            self._trace.note("native call", start_s, time.perf_counter(), self.step, seconds)


def stored_bytes(value: object) -> int:
    """Bytes that a read has brought, as far as they can be told without looking at each value."""
    if isinstance(value, ImageSpans):
        return int(value.sizes.sum())
    if isinstance(value, np.ndarray):
        return value.nbytes
    if isinstance(value, Ragged):
        return int(value.values.nbytes)
    if isinstance(value, list) and value and all(isinstance(one, bytes | str) for one in value):
        return sum(map(len, value))
    return 0
