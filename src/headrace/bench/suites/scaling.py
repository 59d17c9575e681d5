"""What grows with the number of samples: opening, an order, a batch, memory; from a thousand to ten million samples."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace.bench.child import FreshProcesses
from headrace.bench.disk import own_bytes
from headrace.bench.rows import compared_rows, median_row
from headrace.bench.suite import Suite
from headrace.bench.turns import self_timed, take_turns, timed
from headrace.charts import Point, PointChart
from headrace.fields import Bytes, Int
from headrace.formats.beton.columns import record_dtype
from headrace.formats.beton.layout import Layout, columns_for
from headrace.formats.open import open_dataset
from headrace.loader import Loader
from headrace.order import RandomOrder, quasi_random_order
from headrace.progress import format_count

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from headrace.bench.rows import Finding, Row
    from headrace.bench.suite import Settings, Tell
    from headrace.charts import Chart

__all__ = ["SUITE", "write_empty_beton"]

_BATCH, _BATCHES, _PER_PAGE = 256, 16, 400
_FIRST, _TIMED = 16, 48
"""Batches that are left out, because some of them may be ready already, and batches that are timed."""
_QUICK, _MOST = 10**6, 10**7
_NUMPY = "import numpy"


def write_empty_beton(path: Path, samples: int) -> None:
    """A .beton of an empty Bytes field and a zero label; the file is mostly a hole, and takes hardly any space."""
    columns = columns_for({"data": Bytes(), "label": Int()})
    record = record_dtype(columns)
    frame = Layout(page_size=1 << 23, num_samples=samples, alloc_table_ptr=0, columns=columns, record=record)
    table = frame.data_start
    layout = Layout(page_size=1 << 23, num_samples=samples, alloc_table_ptr=table, columns=columns, record=record)
    with open(path, "wb") as file:
        file.write(layout.pack())
        file.truncate(table + 24 * samples)


def _counts(settings: Settings) -> list[int]:
    most = settings.count(quick=_QUICK, full=_MOST)
    return [10**power for power in range(3, 8) if 10**power <= most] or [most]


def _run(settings: Settings, tell: Tell) -> Iterator[Finding]:
    rounds = settings.repeats(quick=3, full=7)
    tell("starting Python")
    yield from _starts(rounds)
    with FreshProcesses() as fresh:
        for count in _counts(settings):
            tell(format_count(count, "sample"))
            path = settings.work / f"{count}.beton"
            write_empty_beton(path, count)
            yield from _times(path, count, rounds)
            used = [fresh.call(loader_memory, path=str(path))["memory_bytes"] for _ in range(min(rounds, 3))]
            yield median_row("memory", format_count(count, "sample"), used, unit="bytes", better="lower", samples=count)
            path.unlink()


def _starts(rounds: int) -> Iterator[Row]:
    # Compiled modules are cached as on any user's machine, even where the caller switched that off.
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}

    def starting(code: str) -> Callable[[], float]:
        words = [sys.executable, "-c", code]
        return timed(lambda: subprocess.run(words, check=True, env=environment, cwd="/"))

    codes = {"import headrace": "import headrace", _NUMPY: "import numpy", "nothing": "pass"}
    seconds, _ = self_timed({name: starting(code) for name, code in codes.items()}, rounds)
    yield from compared_rows("start Python", seconds, [_NUMPY], unit="s")


def _times(path: Path, count: int, rounds: int) -> Iterator[Row]:
    pages = np.arange(count) // _PER_PAGE
    contenders: dict[str, Callable[[int], object]] = {
        "open": lambda turn: open_dataset(path).close(),
        f"random order, {_BATCH} places": lambda turn: RandomOrder(count, turn, 0).slice(0, _BATCH),
        "quasi-random order, the whole epoch": lambda turn: quasi_random_order(
            pages, pool_pages=16, seed=turn, epoch=0
        ),
    }
    seconds = take_turns(contenders, lambda turn: [turn], rounds)
    seconds["a batch, sequential"] = _batch_seconds(path, count, "sequential", rounds)
    seconds["a batch, random"] = _batch_seconds(path, count, "random", rounds)
    for what, taken in seconds.items():
        yield median_row(what, format_count(count, "sample"), taken, unit="s", better="lower", samples=count)


def _loader(path: Path | str, order: Any, seed: int = 0, **options: Any) -> Loader:
    return Loader(path, _BATCH, order=order, seed=seed, collate="offsets", drop_last=False, workers=1, **options)


def _batch_seconds(path: Path, count: int, order: str, rounds: int) -> list[float]:
    """Of one batch, in the middle of an epoch; of few samples it has each again and again."""
    needed, found = (_FIRST + _TIMED) * _BATCH, []
    options = {"indices": np.resize(np.arange(count), needed)} if count < needed else {}
    for turn in range(rounds):
        batches = iter(_loader(path, order, turn, **options))
        for _ in islice(batches, _FIRST):
            pass
        start_s = time.perf_counter()
        done = sum(1 for _ in islice(batches, _TIMED))
        found.append((time.perf_counter() - start_s) / done)
    return found


def loader_memory(path: str) -> dict[str, Any]:
    """Memory of its own that a process takes to open a file and load some random batches."""
    before = peak = own_bytes()
    for _ in islice(iter(_loader(path, "random")), _BATCHES):
        peak = max(peak, own_bytes())
    return {"memory_bytes": peak - before}


def _charts(rows: Sequence[Row]) -> list[Chart]:
    charts: list[Chart] = []
    for title, unit, label in (("Seconds", "s", "seconds"), ("Memory of a process that loads", "bytes", "bytes")):
        chosen = [row for row in rows if row.unit == unit and "samples" in row.facts]
        points = [Point(row.facts["samples"], row.value, "", row.section) for row in chosen]
        if points:
            charts.append(
                PointChart(
                    title=f"{title} against the number of samples",
                    x_label="samples",
                    y_label=label,
                    points=points,
                    is_joined=True,
                    is_log_x=True,
                    is_log_y=True,
                )
            )
    return charts


SUITE = Suite(
    name="scaling",
    question="What do starting, opening, an order, a batch and memory cost as the number of samples grows?",
    run=_run,
    charts=_charts,
    room_bytes=lambda settings: 1 << 24,  # the files are holes
    rooms=("formats/beton", "order", "loader", "_native"),
    notes=(
        "Start: a new interpreter that imports the package and ends, beside one that imports numpy.",
        "A .beton whose samples are empty values and a class: only the tables of the file grow, so what is seen is the "
        f"cost of their number. Warm. Batches of {_BATCH}, one worker; the time of a batch is that of {_TIMED} in the "
        f"middle of an epoch, after the first {_FIRST}; of few samples an epoch has each again and again. Memory: of a "
        "process of its own, beyond what it has with the package imported; mapped files do not count.",
    ),
)
