"""How much memory a loader takes: with larger batches, more workers, more batches ahead, more samples, more epochs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from headrace.bench.child import FreshProcesses
from headrace.bench.disk import own_bytes
from headrace.bench.pictures import photograph_bytes, photograph_count, typical_bytes
from headrace.bench.rows import median_row
from headrace.bench.suite import Suite
from headrace.charts import Bar, BarChart
from headrace.fields import Image, Int
from headrace.formats.write import write
from headrace.loader import Loader
from headrace.ops import RandomResizedCrop, ToLayout
from headrace.progress import format_count

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from headrace.bench.rows import Finding, Row
    from headrace.bench.suite import Settings, Tell
    from headrace.charts import Chart

__all__ = ["SUITE"]

_SIDE = 224
_BATCHES = "bytes of its batches"
_USUAL: dict[str, Any] = {"batch_size": 64, "workers": 2, "batches_ahead": 3, "order": "quasi_random"}


@dataclass(frozen=True, slots=True)
class _Case:
    """What differs from the usual loader; ``copies`` is how often the photographs are in the file."""

    section: str
    name: str
    options: Mapping[str, Any] = field(default_factory=dict)
    epochs: int = 1
    copies: int = 1
    mode: Literal["jpg", "raw"] = "jpg"

    @property
    def told(self) -> dict[str, Any]:
        return {**_USUAL, **self.options}


def _cases() -> Iterator[_Case]:
    for size in (16, 64, 128):
        yield _Case("by batch size", f"batches of {size}", {"batch_size": size})
    for workers in (1, 2, 4):
        yield _Case("by workers", format_count(workers, "worker"), {"workers": workers})
    for ahead in (1, 3, 6):
        yield _Case("by batches ahead", f"{ahead} ahead", {"batches_ahead": ahead})
    for order in ("sequential", "random", "quasi_random"):
        yield _Case("by order", order, {"order": order})
    yield _Case("by what is stored", "JPEG", mode="jpg")
    yield _Case("by what is stored", "raw pixels", mode="raw")
    for copies in (1, 4):
        yield _Case("by samples in the file", f"{copies} times as many", copies=copies)
    for epochs in (1, 3, 6):
        yield _Case("by epochs", format_count(epochs, "epoch"), epochs=epochs)


def _run(settings: Settings, tell: Tell) -> Iterator[Finding]:
    count, rounds = photograph_count(settings, quick=640, full=4000), settings.repeats(quick=3, full=5)
    photographs = photograph_bytes(settings.images, count)
    files: dict[tuple[str, int], Path] = {}
    with FreshProcesses() as fresh:
        for case in _cases():
            tell(f"{case.section}: {case.name}")
            path = files.get((case.mode, case.copies))
            if path is None:
                path = files[case.mode, case.copies] = settings.work / f"{case.mode}-{case.copies}.beton"
                _write(path, photographs, case)
            told = case.told
            used = [fresh.call(load, path=str(path), epochs=case.epochs, **told) for _ in range(rounds)]
            batches = (told["batches_ahead"] + 2) * told["batch_size"] * 3 * _SIDE * _SIDE
            yield median_row(
                case.section,
                case.name,
                [one["memory_bytes"] for one in used],
                unit="bytes",
                better="lower",
                **{_BATCHES: batches},
            )


def _write(path: Path, photographs: list[bytes], case: _Case) -> None:
    samples = [(data, i) for _ in range(case.copies) for i, data in enumerate(photographs)]
    write(path, samples, fields={"image": Image(mode=case.mode), "label": Int()})


def load(path: str, epochs: int, batch_size: int, **options: Any) -> dict[str, Any]:
    """Load some epochs; gives how much memory of its own this process took at most beyond what it has with imports."""
    pipelines: dict[str, Any] = {"image": [RandomResizedCrop(_SIDE), ToLayout("NCHW")]}
    before = peak = own_bytes()
    loader = Loader(path, batch_size, pipelines=pipelines, drop_last=False, **options)
    for _ in range(epochs):
        for _ in loader:
            peak = max(peak, own_bytes())
    return {"memory_bytes": peak - before}


def _charts(rows: Sequence[Row]) -> list[Chart]:
    charts: list[Chart] = []
    for section in dict.fromkeys(row.section for row in rows):
        bars = []
        for row in rows:
            if row.section == section:
                batches = float(row.facts[_BATCHES])
                bars.append(Bar(row.name, row.value, row.low, row.high, "memory of the process"))
                bars.append(Bar(row.name, batches, batches, batches, "its batches alone"))
        charts.append(BarChart(title=f"Memory {section}", unit="bytes", bars=bars))
    return charts


SUITE = Suite(
    name="memory",
    question="How much memory does a loader take, and what makes it more?",
    run=_run,
    charts=_charts,
    room_bytes=lambda settings: 30 * typical_bytes(settings.images, photograph_count(settings, quick=640, full=4000)),
    rooms=("loader", "read", "order", "ops", "formats/beton"),
    notes=(
        "Random crops of photographs to 224 pixels; unless said otherwise in batches of 64, with 2 workers, 3 batches "
        "ahead, in quasi-random order, one epoch. Each figure is from a process of its own: the most it takes beyond "
        "what it has with the package imported. Mapped files do not count, as the system takes their memory back when "
        "it needs it. A loader keeps its batches ahead and two more in memory that is used again: that is the second "
        "bar.",
    ),
)
