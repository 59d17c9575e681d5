"""What a suite is, and what it is told."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from headrace.bench.rows import Finding, Row
    from headrace.charts import Chart

__all__ = ["Settings", "Suite", "Tell"]

Tell: TypeAlias = "Callable[[str], object]"
"""Is called with what is being done."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """What a suite is told.

    Args:
        work: a folder for files that are removed at the end; the disk that is measured is the one it lies on.
        images: a folder of the user's photographs; None for made-up ones.
        quick: at most two minutes.
        samples: how many samples, instead of what the suite would take.
        rounds: how often everything is measured, instead of what the suite would do.
        warm_only: why nothing can be read cold; empty where it can.
    """

    work: Path
    images: str | None = None
    quick: bool = False
    samples: int | None = None
    rounds: int | None = None
    warm_only: str = ""

    def as_json(self) -> dict[str, Any]:
        """What has to be the same for two results to be compared."""
        return {"images": self.images, "quick": self.quick, "samples": self.samples, "rounds": self.rounds}

    def count(self, *, quick: int, full: int) -> int:
        """How many samples there are."""
        return self.samples or (quick if self.quick else full)

    def repeats(self, *, quick: int, full: int) -> int:
        """How often everything is measured."""
        return self.rounds or (quick if self.quick else full)


@dataclass(frozen=True, kw_only=True, slots=True)
class Suite:
    """Measurements that answer one question.

    Args:
        name: what it is called on the command line.
        question: in one sentence.
        run: measures, and gives each finding as soon as it is known: what was found before an interrupt is kept.
        charts: pictures of the rows; of some of them, if it was interrupted.
        room_bytes: how much it writes at most, told before anything is written.
        rooms: what the figures depend on: rooms of the package; the C++ sources are always among it.
        missing: why nothing of it can be measured here; empty where it can.
        notes: what a reader of the figures has to know, a paragraph each.
    """

    name: str
    question: str
    run: Callable[[Settings, Tell], Iterator[Finding]]
    charts: Callable[[Sequence[Row]], list[Chart]]
    room_bytes: Callable[[Settings], int]
    rooms: tuple[str, ...]
    missing: Callable[[], str] = str
    notes: tuple[str, ...] = ()
