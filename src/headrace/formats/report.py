"""What checking a whole dataset is in every format: chunks of samples in threads, and one report."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headrace.formats.contract import count_workers, index_chunks
from headrace.formats.threads import map_ahead
from headrace.types import ProblemProgress, Report

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from headrace.types import IndexArray, Problem, Progress

__all__ = ["MAX_PROBLEMS", "Found", "Transfer", "advance", "check_all"]

MAX_PROBLEMS = 10_000
_CHUNK = 256


@dataclass(kw_only=True, slots=True)
class Found:
    """What was checked, and what is wrong with it."""

    samples: int = 0
    checksums: int = 0
    images: int = 0
    size_bytes: int = 0
    problems: list[Problem] = field(default_factory=list)
    problems_left_out: int = 0

    def add(self, other: Found) -> None:
        """Count what another part has found."""
        self.samples += other.samples
        self.checksums += other.checksums
        self.images += other.images
        self.size_bytes += other.size_bytes
        room = max(MAX_PROBLEMS - len(self.problems), 0)
        self.problems += other.problems[:room]
        self.problems_left_out += other.problems_left_out + len(other.problems[room:])

    def report(self, path: str) -> Report:
        """All of it, of very many problems the first."""
        return Report(
            path=path,
            samples_checked=self.samples,
            checksums_checked=self.checksums,
            images_decoded=self.images,
            size_bytes=self.size_bytes,
            problems=tuple(self.problems[:MAX_PROBLEMS]),
            problems_left_out=self.problems_left_out + max(0, len(self.problems) - MAX_PROBLEMS),
        )


def check_all(
    check: Callable[[IndexArray], Found],
    length: int,
    *,
    workers: int | None,
    progress: Progress | None,
    chunks: Iterable[IndexArray] | None = None,
) -> Found:
    """Check all samples, some at a time.

    Args:
        check: checks the samples it is given; called from several threads.
        length: number of samples.
        workers: threads; by default one for each core.
        progress: called as the work advances; a ProblemProgress is told what is found.
        chunks: all samples in order, as many at a time as may lie in memory together; by default a number of them.
    """
    total, parts = Found(), index_chunks(length, _CHUNK) if chunks is None else chunks
    for found in map_ahead(check, parts, threads=count_workers(workers or None), ahead=4):
        total.add(found)
        advance(progress, total, length, found)
    return total


def advance(progress: Progress | None, total: Found, length: int | None, new: Found) -> None:
    """Say what is new in a part that was checked, to whoever wants to know that, and how far the work is."""
    if isinstance(progress, ProblemProgress) and new.problems:
        progress.found(new.problems)
    if progress is not None:
        progress(total.samples, length, total.size_bytes)


@dataclass(slots=True)
class Transfer:
    """What was carried: counts, bytes, and what was left out, with the reason.

    ``samples`` counts what was written where the target holds samples; it is None where files were written. ``fields``
    says what each field of theirs is. ``skipped`` has a line for each thing that was left out, its path and the
    reason, and ``broken`` those of pictures that cannot be stored. After a dry run it is what would be carried, and
    ``size_bytes`` is an estimate.
    """

    files: int = 0
    dirs: int = 0
    size_bytes: int = 0
    skipped: list[str] = field(default_factory=list)
    samples: int | None = None
    fields: dict[str, str] = field(default_factory=dict)
    broken: list[str] = field(default_factory=list)
