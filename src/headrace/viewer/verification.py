"""A check of a whole dataset in the background: how far it is, and what it has found so far."""

from __future__ import annotations

import threading
from array import array
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace.arrays import distinct
from headrace.formats.report import MAX_PROBLEMS
from headrace.viewer.background import BackgroundTask
from headrace.viewer.shelf import Damage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.types import Dataset, IndexArray, Problem, Report

__all__ = ["MOST_LISTED", "Verification"]

MOST_LISTED = 200
_MOST_TEXT = 2000


class Verification:
    """The checks of one dataset, of which one runs at a time.

    While one runs, ``damaged`` and the problems are those of this run so far; afterwards they stay until the next one.

    Args:
        dataset: what is checked.
        damage: is told of damaged samples, for the other pages.
        workers: threads; by default one for each core.
    """

    def __init__(self, dataset: Dataset, *, damage: Damage | None = None, workers: int | None = None) -> None:
        self._dataset = dataset
        self._damage = Damage() if damage is None else damage
        self._workers = workers
        self._task = BackgroundTask(self._verify)
        self._lock = threading.Lock()
        self._is_decoding = False
        self._forget()

    def _forget(self) -> None:
        self._problems: list[Problem] = []
        self._left_out = 0
        self._bad = array("q")
        self._damaged: IndexArray | None = None
        self._report: Report | None = None

    def start(self, *, decode: bool) -> bool:
        """Begin a check; False where one runs already."""
        with self._lock:
            if self._task.is_active:
                return False
            self._forget()
            self._is_decoding = decode
            return self._task.start()

    def stop(self) -> bool:
        """End the check that runs; False where none does."""
        return self._task.stop()

    def join(self, timeout_s: float | None = None) -> None:
        """Wait until the check has ended."""
        self._task.join(timeout_s)

    def end(self) -> None:
        """Stop it, and wait until nothing is read any more."""
        self.stop()
        self.join()

    @property
    def damaged(self) -> IndexArray | None:
        """Samples in which something is wrong, ascending; None where nothing was checked."""
        with self._lock:
            if self._task.state == "idle":
                return None
            if self._damaged is None:
                self._damaged = distinct(np.array(self._bad, np.int64))
            return self._damaged

    def facts(self) -> dict[str, Any]:
        """How far it is, and how much is wrong."""
        with self._lock:
            found = self._task.facts() | {
                "decode": self._is_decoding,
                "problems": len(self._problems) + self._left_out,
                "has_checksums": self._dataset.has_checksums,
                "samples": len(self._dataset),
            }
            if (report := self._report) is not None:
                found |= {
                    "checksums_checked": report.checksums_checked,
                    "images_decoded": report.images_decoded,
                }
        damaged = self.damaged
        return found | {"damaged": 0 if damaged is None else len(damaged)}

    def problems(self, at: int, limit: int) -> dict[str, Any]:
        """Some of the problems, in the order in which they were found."""
        with self._lock:
            total, kept = len(self._problems) + self._left_out, len(self._problems)
            part = self._problems[max(at, 0) : max(at, 0) + max(0, min(limit, MOST_LISTED))]
        return {"total": total, "kept": kept, "problems": [self._row(problem) for problem in part]}

    def _row(self, problem: Problem) -> dict[str, Any]:
        keys, sample = self._dataset.keys, problem.sample
        name = keys[sample] if keys is not None and sample is not None and sample < len(keys) else None
        message = problem.message
        if len(message) > _MOST_TEXT:
            message = f"{message[:_MOST_TEXT]}... ({len(message):,} characters)"
        return {"sample": sample, "name": name, "field": problem.field, "message": message}

    # Called by the check

    def _verify(self, task: BackgroundTask) -> None:
        task(0, len(self._dataset), 0)
        watch = _Watch(task, self)
        report = self._dataset.verify(decode=self._is_decoding, workers=self._workers, progress=watch)
        with self._lock:
            self._report = report
            # The report has the last word: it may take back what was found, where the whole file is another one.
            self._problems, self._left_out = list(report.problems), report.problems_left_out
            if not report.problems_left_out:
                self._damage.forget(set(self._bad) - set(report.bad_samples))
                self._bad, self._damaged = array("q", report.bad_samples), None
        self._tell(report.problems)
        self._damage.is_complete = True

    def _tell(self, problems: Sequence[Problem]) -> None:
        for problem in problems:
            if problem.sample is not None:
                self._damage.add(problem.sample, problem.message)

    def take(self, problems: Sequence[Problem]) -> None:
        """Keep what was found; of very many problems the first, but the numbers of all samples."""
        with self._lock:
            room = max(MAX_PROBLEMS - len(self._problems), 0)
            self._problems += problems[:room]
            self._left_out += len(problems[room:])
            self._bad.extend(problem.sample for problem in problems if problem.sample is not None)
            self._damaged = None
        self._tell(problems)


class _Watch:
    """What ``verify`` tells as it goes."""

    def __init__(self, task: BackgroundTask, verification: Verification) -> None:
        self._task = task
        self._verification = verification

    def __call__(self, done: int, total: int | None, size_bytes: int) -> None:
        self._task(done, total, size_bytes)

    def found(self, problems: Sequence[Problem]) -> None:
        self._verification.take(problems)
