"""``Loader(progress=True)``: one line that says how a loop goes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from headrace.loader.stats import find_binding
from headrace.progress import ProgressBar, format_count

if TYPE_CHECKING:
    from types import TracebackType

    from headrace.loader.stats import LoaderStats

__all__ = ["LiveLine"]


class LiveLine:
    """Draws the line of one loop while it runs, by what the loader's stats say since it began; a context manager.

    Args:
        stats: of the loader.
        epoch: its number.
        batches: how many the loop will have.
        samples: how many samples they have together.
    """

    def __init__(self, stats: LoaderStats, epoch: int, batches: int, samples: int) -> None:
        self._stats = stats
        self._batches = batches
        self._samples = samples
        self._before = stats.copy()
        self._bar = ProgressBar(f"epoch {epoch}", note=self._note)

    def draw(self) -> None:
        """Bring the line up to date."""
        done = self._stats.since(self._before)
        self._bar(done.samples, self._samples, done.bytes_read)

    def _note(self) -> str:
        done = self._stats.since(self._before)
        share = done.wait_s / max(done.loop_s, 1e-9)
        return f"{done.batches:,}/{format_count(self._batches, 'batch')}, waits {share:.0%}, {find_binding(done)} binds"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.__exit__(kind, error, trace)
