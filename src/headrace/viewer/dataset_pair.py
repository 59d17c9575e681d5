"""Two datasets side by side: which samples belong together, and, when asked for, which of them differ.

Both questions are answered in the background, so a page never waits for millions of samples: it asks again, and shows
what is known so far. Any thread may call any method.
"""

from __future__ import annotations

import threading
import time
from array import array
from collections import Counter
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from headrace.formats.contract import count_workers
from headrace.formats.threads import map_ahead
from headrace.formats.thumbnails import picture_fields
from headrace.viewer.background import BackgroundTask
from headrace.viewer.field_pairs import pair_fields
from headrace.viewer.pairing import pair_samples
from headrace.viewer.sample_difference import compare_field, differing_samples

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.types import Dataset, IndexArray
    from headrace.viewer.pairing import By, Pairing

__all__ = ["MOST_ROWS", "DatasetPair", "Show"]

Show = Literal["all", "differing", "only_first", "only_second"]
MOST_ROWS = 48
"""Rows of one answer."""
_CHUNK_BYTES = 8 << 20
_MOST_SAMPLES = 256
_MOST_THREADS = 8
_PATIENCE_S = 1.5
_AT_ONCE = 20_000  # names that are paired while a page waits


class DatasetPair:
    """Two datasets and what is known about their differences.

    Args:
        a: the first dataset.
        b: the second.
        by: what belongs together, see ``pair_samples``.
    """

    def __init__(self, a: Dataset, b: Dataset, *, by: By | None = None) -> None:
        self.a, self.b = a, b
        self.fields = pair_fields(a.schema, b.schema)
        self._by = by
        self._lock = threading.Lock()
        self._pairing: Pairing | None = None
        self._pair_task = BackgroundTask(self._pair)
        self._search_task = BackgroundTask(self._search)
        self._forget()

    def _forget(self) -> None:
        self._rows = array("q")
        self._by_field: Counter[str] = Counter()

    # What the page asks for

    @cached_property
    def pictures(self) -> tuple[list[str], list[str]]:
        """Names of the fields of both that have pictures."""
        return picture_fields(self.a), picture_fields(self.b)

    def begin(self) -> None:
        """Find out what belongs together, if that is not known; few names are paired at once."""
        if self._pairing is not None or self._pair_task.state == "failed":
            return
        self._pair_task.start()
        if len(self.a) + len(self.b) <= _AT_ONCE:
            self._pair_task.join(2.0)

    def search(self) -> bool:
        """Look for all samples that differ; False where that is under way, or cannot begin yet."""
        with self._lock:
            if self._pairing is None or self._search_task.is_active:
                return False
            self._forget()
            return self._search_task.start()

    def stop(self) -> bool:
        """End what runs in the background; False where nothing does."""
        return any([self._pair_task.stop(), self._search_task.stop()])

    def join(self, timeout_s: float | None = None) -> None:
        """Wait for what runs in the background."""
        self._pair_task.join(timeout_s)
        self._search_task.join(timeout_s)

    def end(self) -> None:
        """Stop all, and wait until nothing is read any more."""
        self.stop()
        self.join()

    def facts(self) -> dict[str, Any]:
        """What belongs together, how far the search is, and what it has found."""
        with self._lock:
            pairing = self._pairing
            search = self._search_task.facts() | {"found": len(self._rows), "by_field": dict(self._by_field)}
        found: dict[str, Any] = {"pairing": self._pair_task.facts(), "search": search, "fields": self._field_facts()}
        if pairing is None:
            return found
        return found | {
            "by": pairing.by,
            "rows": len(pairing),
            "pairs": pairing.pairs,
            "only_first": pairing.only_in_first,
            "only_second": pairing.only_in_second,
        }

    def rows(self, show: Show, at: int, limit: int) -> dict[str, Any]:
        """Some rows of the list, compared now; where pictures are large, the rest is ``pending``, to be asked for."""
        pairing = self._known_pairing()
        chosen = self._chosen(pairing, show)
        start = max(0, at)
        part = np.asarray(chosen[start : start + max(0, min(limit, MOST_ROWS))], np.int64)
        end_s = time.monotonic() + _PATIENCE_S
        rows = [self._row(pairing, row, time.monotonic() < end_s) for row in part.tolist()]
        return {"total": len(chosen), "at": start, "rows": rows}

    def row(self, row: int) -> dict[str, Any]:
        """One row in full: every field."""
        i, j = self.samples_of(row)
        facts = self._names(row, i, j)
        if i is None or j is None:
            return facts
        fields = [compare_field(self.a, i, self.b, j, pair) for pair in self.fields]
        return facts | {"state": _state_of(fields), "fields": fields}

    def neighbours(self, row: int, show: Show) -> dict[str, int | None]:
        """The rows before and behind one, among those that are shown."""
        chosen = self._chosen(self._known_pairing(), show)
        place = _place_in(chosen, row)
        is_there = place < len(chosen) and chosen[place] == row
        behind = place + 1 if is_there else place
        return {
            "place": place,
            "previous": int(chosen[place - 1]) if 0 < place <= len(chosen) else None,
            "next": int(chosen[behind]) if behind < len(chosen) else None,
        }

    def samples_of(self, row: int) -> tuple[int | None, int | None]:
        """The sample of each dataset in a row."""
        pairing = self._known_pairing()
        if not 0 <= row < len(pairing):
            raise IndexError(f"row {row} does not exist, there are {len(pairing):,}")
        return self._samples(pairing, row)

    def _known_pairing(self) -> Pairing:
        self.begin()
        if self._pairing is None:
            error = self._pair_task.facts()["error"]
            raise ValueError(error or "the names are being paired; ask again in a moment")
        return self._pairing

    def _chosen(self, pairing: Pairing, show: Show) -> Sequence[int] | IndexArray:
        if show == "only_first":
            return pairing.rows_only_in_first
        if show == "only_second":
            return pairing.rows_only_in_second
        if show == "differing":
            with self._lock:
                return np.array(self._rows, np.int64)
        return range(len(pairing))

    def _samples(self, pairing: Pairing, row: int) -> tuple[int | None, int | None]:
        first, second = pairing.at(np.array([row], np.int64))
        i, j = int(first[0]), int(second[0])
        return (None if i < 0 else i), (None if j < 0 else j)

    def _names(self, row: int, i: int | None, j: int | None) -> dict[str, Any]:
        facts: dict[str, Any] = {"row": row, "first": i, "second": j}
        for side, dataset, number in (("first_name", self.a, i), ("second_name", self.b, j)):
            keys = dataset.keys
            facts[side] = keys[number] if keys is not None and number is not None else None
        state = "only_second" if i is None else "only_first" if j is None else "both"
        return facts | {"state": state}

    def _row(self, pairing: Pairing, row: int, is_compared: bool = True) -> dict[str, Any]:
        """A row in short: what is the same in both is left out."""
        i, j = self._samples(pairing, row)
        facts = self._names(row, i, j)
        if i is None or j is None:
            return facts
        if not is_compared:
            return facts | {"state": "pending"}
        fields = [compare_field(self.a, i, self.b, j, pair) for pair in self.fields if pair.is_in_both]
        differing = [field for field in fields if field["state"] != "same"]
        return facts | {"state": _state_of(differing), "fields": differing}

    def _field_facts(self) -> list[dict[str, Any]]:
        return [pair._asdict() | {"title": pair.title} for pair in self.fields]

    # In the background

    def _pair(self, task: BackgroundTask) -> None:
        pairing = pair_samples(self.a, self.b, by=self._by, progress=task)
        with self._lock:
            self._pairing = pairing

    def _search(self, task: BackgroundTask) -> None:
        pairing = self._known_pairing()
        total, done, size_bytes = pairing.lengths[0], 0, 0
        task(0, total, 0)

        def size() -> int:
            mean = size_bytes / done if done else _CHUNK_BYTES / 16
            return int(min(_MOST_SAMPLES, max(1, _CHUNK_BYTES // max(mean, 1))))

        def look(rows: IndexArray) -> tuple[IndexArray, IndexArray, Counter[str], int]:
            return (rows, *self._differing(pairing, rows))

        threads = min(_MOST_THREADS, count_workers(None))
        for rows, differing, by_field, size_read in map_ahead(look, pairing.paired_rows(size), threads=threads):
            with self._lock:
                self._rows.extend(differing.tolist())
                self._by_field.update(by_field)
            done, size_bytes = (int(rows[-1]) + 1 if len(rows) else done), size_bytes + size_read
            task(done, total, size_bytes)
        task(total, total, size_bytes)

    def _differing(self, pairing: Pairing, rows: IndexArray) -> tuple[IndexArray, Counter[str], int]:
        first, second = pairing.at(rows)
        is_apart, by_field, size_bytes = np.zeros(len(rows), np.bool_), Counter[str](), 0
        for pair in self.fields:
            differs, size_read = differing_samples(self.a, first, self.b, second, pair)
            count = int(np.count_nonzero(differs))
            if count:
                by_field[pair.title] += count
            is_apart |= differs
            size_bytes += size_read
        return rows[is_apart], by_field, size_bytes


def _place_in(ascending: Sequence[int] | IndexArray, row: int) -> int:
    """Where a row is among others, or would be."""
    if isinstance(ascending, range):
        return min(max(row - ascending.start, 0), len(ascending))
    return int(np.searchsorted(np.asarray(ascending), row))


def _state_of(fields: Sequence[dict[str, Any]]) -> str:
    """A sample by its fields; those that only one dataset has do not count."""
    states = {field["state"] for field in fields}
    return next((state for state in ("damaged", "differs") if state in states), "same")
