"""A progress bar for long work: samples done, rate, bytes, remaining time."""

from __future__ import annotations

import os
import re
import sys
import time
from typing import TYPE_CHECKING, Self, TextIO

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

__all__ = ["ProgressBar", "format_bytes", "format_count", "format_duration", "is_notebook", "is_seen", "parse_bytes"]

_CELLS = 24
_MIN_CELLS = 5
_LARGEST = 2**63 - 1
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def format_bytes(size_bytes: float) -> str:
    """Spell a number of bytes for people, in powers of 1024; ``parse_bytes`` understands it.

    Example:
        >>> format_bytes(1_500_000), parse_bytes("1.4 MiB")
        ('1.4 MiB', 1468006)
    """
    for unit in _UNITS[:-1]:
        if abs(size_bytes) < 1023.5:
            return f"{size_bytes:.0f} {unit}" if unit == "B" or size_bytes >= 99.5 else f"{size_bytes:.1f} {unit}"
        size_bytes /= 1024
    return f"{size_bytes:.1f} {_UNITS[-1]}"


def parse_bytes(text: str) -> int:
    """Bytes from text such as ``8M``, ``1.5 GB`` or ``2GiB``, all in powers of 1024.

    Raises:
        ValueError: the text is not a size.

    Example:
        >>> parse_bytes("8M")
        8388608
    """
    match = re.fullmatch(r"(\d{1,20}(?:\.\d{1,20})?)\s*([kmgtp]?)(?:i?b)?", text.strip().lower())
    if match is None:
        raise ValueError(f"{text[:60]!r} is not a size; write for example 8M")
    unit = 1 << 10 * ("kmgtp".index(match[2]) + 1 if match[2] else 0)
    size = int(float(match[1]) * unit) if "." in match[1] else int(match[1]) * unit
    if size > _LARGEST:
        raise ValueError(f"{text!r} is larger than any file can be ({_LARGEST} bytes)")
    return size


def format_count(count: int, noun: str) -> str:
    """Spell how many there are of something, which is named in the singular.

    Bytes are written as offsets are, without commas; ``format_bytes`` is for sizes that need not be exact.

    Example:
        >>> format_count(1, "file"), format_count(2000, "directory"), format_count(2000, "byte")
        ('1 file', '2,000 directories', '2000 bytes')
        >>> format_count(3, "batch"), format_count(3, "epoch")
        ('3 batches', '3 epochs')
    """
    if count == 1:
        return f"1 {noun}"
    number = str(count) if noun == "byte" else f"{count:,}"
    if noun.endswith("index"):
        return f"{number} {noun[:-2]}ices"
    if re.search(r"[^aeiou]y$", noun):
        return f"{number} {noun[:-1]}ies"
    is_hissed = noun.endswith(("s", "x", "ch", "sh")) and noun != "epoch"
    return f"{number} {noun}{'es' if is_hissed else 's'}"


def format_duration(seconds: float) -> str:
    """Spell a duration for people.

    Example:
        >>> format_duration(3725)
        '1:02:05'
    """
    whole = max(0, round(seconds))
    hours, rest = divmod(whole, 3600)
    return f"{hours}:{rest // 60:02}:{rest % 60:02}" if hours else f"{rest // 60}:{rest % 60:02}"


def is_seen(stream: TextIO | None) -> bool:
    """Somebody watches a stream: it is a terminal, or leads into a notebook."""
    return stream is not None and (stream.isatty() or is_notebook(stream))


def is_notebook(stream: TextIO) -> bool:
    """The stream of a Jupyter kernel, which is no terminal, and yet begins a line anew at a carriage return."""
    return any(kind.__module__.startswith("ipykernel.") for kind in type(stream).__mro__)


class ProgressBar:
    """Draws one line on a terminal or in a notebook and keeps it up to date; on anything else it is silent.

    Call it with (done, total, size_bytes); use it as a context manager so that the line is finished.

    Args:
        label: what is being done, in a word or two.
        unit: what is counted.
        stream: where to draw, by default standard error.
        enabled: force drawing on or off; by default it draws on terminals and in notebooks only.
        note: gives more to say, before the numbers, whenever the line is drawn.
    """

    def __init__(
        self,
        label: str,
        *,
        unit: str = "samples",
        stream: TextIO | None = None,
        enabled: bool | None = None,
        note: Callable[[], str] | None = None,
    ) -> None:
        self._label = label
        self._unit = unit
        self._note = note
        self._stream = stream if stream is not None else sys.stderr
        self._enabled = is_seen(self._stream) if enabled is None else enabled
        # Each drawing in a notebook is a message to the browser.
        self._pause_s, self._usual_width = (0.5, 80) if is_notebook(self._stream) else (0.1, 120)
        self._start_s = time.monotonic()
        self._drawn_s = 0.0
        self._last: tuple[int, int | None, int] = (0, None, 0)

    def __call__(self, done: int, total: int | None, size_bytes: int) -> None:
        """Advance, and draw at most ten times a second, in a notebook twice."""
        now_s = time.monotonic()
        if done < self._last[0]:  # the next of several steps
            self._start_s = now_s
        self._last = (done, total, size_bytes)
        if self._enabled and now_s - self._drawn_s >= self._pause_s:
            self._drawn_s = now_s
            self._draw(now_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._enabled and (self._drawn_s or kind is None):  # what failed before it began needs no bar
            self._draw(time.monotonic())
            self._stream.write("\n")
            self._stream.flush()

    def line(self, now_s: float, width: int | None = None) -> str:
        """The text of the bar at a point in time; the bar itself gives way where the line is to be shorter."""
        done, total, size_bytes = self._last
        elapsed_s = max(now_s - self._start_s, 1e-9)
        rate = done / elapsed_s
        noun = self._unit.removesuffix("s")
        parts = [
            f"{format_count(round(rate), noun)}/s",
            f"{format_bytes(size_bytes)}, {format_bytes(size_bytes / elapsed_s)}/s",
        ]
        if not total:
            head = f"{self._label} {format_count(done, noun)}"
            return " | ".join([head, *self._notes(), *parts, format_duration(elapsed_s)])
        share = min(done / total, 1.0)
        left_s = (total - done) / rate if rate > 0 else 0.0
        parts.append(f"{format_duration(left_s)} left" if done < total else f"in {format_duration(elapsed_s)}")
        head, tail = f"{self._label} {share:4.0%}", " | ".join([*self._notes(), f"{done:,}/{total:,}", *parts])
        cells = _CELLS if width is None else min(_CELLS, width - len(head) - len(tail) - 4)
        if cells < _MIN_CELLS:
            return f"{head} {tail}"
        filled = int(share * cells)
        return f"{head} [{'#' * filled}{'.' * (cells - filled)}] {tail}"

    def _notes(self) -> list[str]:
        return [] if self._note is None else [self._note()]

    def _draw(self, now_s: float) -> None:
        try:
            width = os.get_terminal_size(self._stream.fileno()).columns
        except (OSError, ValueError):
            width = self._usual_width
        self._stream.write("\r" + self.line(now_s, width - 1)[: width - 1].ljust(width - 1))
        self._stream.flush()
