"""What the threads of a loader did, span by span, as a file that Chrome and Perfetto show.

The format is the JSON of Chrome's tracing: complete events with a name, a thread, a beginning and a duration in
microseconds. The spans that came last are kept; how many were let go is in the file.
"""

from __future__ import annotations

import json
import os
import threading
from collections import deque
from typing import TYPE_CHECKING, Any

from headrace.storage import AtomicFile

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.errors import PathLike

__all__ = ["Trace"]

_MOST_SPANS = 100_000  # about 15 MB of JSON


class Trace:
    """Spans of time, by thread; any thread may note one.

    Args:
        path: of the file that ``write`` makes.
        most: how many spans are kept.
    """

    def __init__(self, path: PathLike, most: int = _MOST_SPANS) -> None:
        self.path = os.path.abspath(path)  # the working directory may be another by then
        folder, name = os.path.split(self.path)
        if not os.path.isdir(folder):  # told now, not after an epoch
            raise FileNotFoundError(f"trace: {folder} does not exist, so {name} cannot be written there")
        self._spans: deque[tuple[str, float, float, int, int, Mapping[str, float] | None]] = deque(maxlen=most)
        self._threads: dict[int, str] = {}
        self._noted = 0

    def note(
        self, name: str, start_s: float, end_s: float, step: int, parts: Mapping[str, float] | None = None
    ) -> None:
        """A thread, the one that calls, has done something; ``parts`` are seconds by name."""
        thread = threading.get_native_id()
        if thread not in self._threads:
            self._threads[thread] = threading.current_thread().name
        self._noted += 1
        self._spans.append((name, start_s, end_s, step, thread, parts))

    def events(self) -> list[dict[str, Any]]:
        """The spans as the format has them."""
        process = os.getpid()
        named = [
            {"name": "thread_name", "ph": "M", "pid": process, "tid": thread, "args": {"name": name}}
            for thread, name in list(self._threads.items())
        ]
        return named + [
            {
                "name": name,
                "cat": "loader",
                "ph": "X",
                "ts": round(start_s * 1e6, 1),
                "dur": round((end_s - start_s) * 1e6, 1),
                "pid": process,
                "tid": thread,
                "args": {"batch": step} | {f"{part}_ms": round(s * 1e3, 3) for part, s in (parts or {}).items()},
            }
            for name, start_s, end_s, step, thread, parts in list(self._spans)
        ]

    def write(self) -> None:
        """Write the file, in one step, over one that is there."""
        left_out = max(0, self._noted - len(self._spans))
        whole = {"traceEvents": self.events(), "displayTimeUnit": "ms", "otherData": {"spans_left_out": left_out}}
        with AtomicFile(self.path) as file:
            file.write([json.dumps(whole, separators=(",", ":")).encode()])
