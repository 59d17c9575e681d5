"""What ``headrace info --plot`` draws: sizes, sides of pictures, classes and page use of a dataset.

Of very many samples, some from all over the dataset are looked at, and no longer than a few seconds; the charts say so.
"""

from __future__ import annotations

import math
import os
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from headrace.charts import Bar, BarChart, Histogram, chart_file, chart_page, chart_png
from headrace.errors import HeadraceError
from headrace.progress import format_count
from headrace.storage import AtomicFile, is_remote
from headrace.terminal import cut

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from headrace.charts import Chart
    from headrace.types import Dataset, IndexArray

__all__ = ["SUFFIXES", "charts_of", "check_target", "write_plot"]

SUFFIXES = (".png", ".svg", ".html")
_MARK = "headrace info --plot"  # in every file, so that another one is not replaced
_MOST_SAMPLES, _AT_A_TIME, _TIME_S = 4096, 256, 5.0
_MOST_LABELS, _LABELS_AT_A_TIME = 1 << 24, 1 << 16
_BINS, _FEWEST_BINS = 40, 8
_MOST_CLASSES, _ALL_CLASSES, _SHOWN_CLASSES = 100_000, 30, 10
_WIDE = 30  # times the least, from which on an axis is logarithmic
_SAID = 26  # characters of a label
_FAILURES = (HeadraceError, ValueError, OSError)


def check_target(out: str) -> None:
    """ValueError or FileExistsError when a plot cannot be written there, or something else would be lost."""
    if is_remote(out):
        raise ValueError(f"{out} is in a store; a plot is written to this machine")
    if os.path.splitext(out)[1].lower() not in SUFFIXES:
        raise ValueError(f"{out}: a plot is a {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}, by the ending of its name")
    if not os.path.lexists(out):
        return
    if not os.path.isfile(out):
        raise FileExistsError(f"{out} exists and is no file; choose another name")
    with open(out, "rb") as file:
        if _MARK.encode() not in file.read(1 << 16):
            raise FileExistsError(
                f"{out} exists and is not a plot of headrace; choose another name, or remove it first"
            )


def write_plot(charts: Sequence[Chart], out: str, *, title: str, facts: str) -> None:
    """Write charts as the kind of file that the name says; it appears when it is complete."""
    suffix = os.path.splitext(out)[1].lower()
    if suffix == ".png":
        data = chart_png(charts, title=cut(title, 70), facts=cut(facts, 60), mark=_MARK)
    elif suffix == ".svg":
        data = chart_file(charts, title=f"{cut(title, 200)} ({_MARK})").encode()
    else:
        page = chart_page(charts, title=cut(title, 200), facts=facts)
        data = page.replace("<html", f"<!-- {_MARK} -->\n<html", 1).encode()
    with AtomicFile(out) as file:
        file.write([data])


def charts_of(dataset: Dataset) -> list[Chart]:
    """All that there is to draw."""
    found = _Sizes(dataset)
    return [*found.charts(), *_class_charts(dataset), *_page_charts(dataset)]


class _Sizes:
    """Bytes of samples and sides of pictures, as far as they were looked at."""

    def __init__(self, dataset: Dataset) -> None:
        self._payloads = [name for name, field in dataset.schema.items() if field.has_payload]
        self._pictures = [name for name in self._payloads if dataset.schema[name].kind == "image"]
        self._total = len(dataset)
        self.sizes: list[int] = []
        self.widths: list[int] = []
        self.heights: list[int] = []
        end_s = time.monotonic() + _TIME_S
        chosen = _spread(len(dataset), _MOST_SAMPLES)
        for start in range(0, len(chosen), _AT_A_TIME):
            if not self._payloads or time.monotonic() > end_s:
                break
            self._add(dataset, chosen[start : start + _AT_A_TIME])

    def _add(self, dataset: Dataset, where: IndexArray) -> None:
        """Look at some; where one of them is damaged, at each for itself, and at the damaged ones not at all."""
        try:
            self._add_all(dataset, where)
        except _FAILURES:
            if len(where) > 1:
                for half in np.array_split(where, 2):
                    self._add(dataset, half)

    def _add_all(self, dataset: Dataset, where: IndexArray) -> None:
        announced = None if dataset.is_local else dataset.announce(where, self._payloads)
        try:
            total = np.zeros(len(where), np.int64)
            widths: list[int] = []
            heights: list[int] = []
            for name in self._payloads:
                if name in self._pictures:
                    spans = dataset.image_spans(where, name)
                    total += spans.sizes.astype(np.int64)
                    widths += spans.widths.tolist()
                    heights += spans.heights.tolist()
                else:
                    total += np.fromiter(map(len, dataset.read_bytes(where, name)), np.int64, len(where))
        finally:
            if announced is not None:
                announced.close()
        self.sizes += total.tolist()
        self.widths += widths
        self.heights += heights

    def charts(self) -> Iterator[Chart]:
        seen = len(self.sizes)
        of = "" if seen == self._total else f" ({seen:,} of {format_count(self._total, 'sample')})"
        if self.sizes:
            yield _histogram(f"Size of a sample{of}", "bytes stored", np.array(self.sizes))
        if self.widths:
            yield _histogram(f"Width of pictures{of}", "pixels", np.array(self.widths))
            yield _histogram(f"Height of pictures{of}", "pixels", np.array(self.heights))


def _spread(length: int, count: int) -> IndexArray:
    return np.arange(length, dtype=np.int64) if length <= count else np.arange(count, dtype=np.int64) * length // count


def _histogram(title: str, x_label: str, values: npt.NDArray[np.int64], y_label: str = "samples") -> Histogram:
    low, high = float(values.min()), float(values.max())
    bins = min(_BINS, max(_FEWEST_BINS, round(2 * math.sqrt(len(values)))))
    is_log = low > 0 and high / low > _WIDE
    if high - low < bins and not is_log:  # a bar for each number
        edges = np.arange(low - 0.5, high + 1.5)
    elif is_log:
        edges = np.geomspace(low, high + 1, bins + 1)
    else:
        edges = np.linspace(low, high, bins + 1)
    counts = np.histogram(values, edges)[0]
    return Histogram(
        title=title, x_label=x_label, y_label=y_label, edges=edges.tolist(), counts=counts.tolist(), is_log=is_log
    )


def _class_charts(dataset: Dataset) -> Iterator[Chart]:
    for name, field in dataset.schema.items():
        if field.kind != "int":
            continue
        labels = _labels(dataset, name)
        names = dataset.class_names.get(name)
        if not len(labels) or labels.min() < 0 or labels.max() >= _MOST_CLASSES:
            continue
        counts = np.bincount(labels, minlength=min(len(names or ()), _MOST_CLASSES))
        if names is None and np.count_nonzero(counts) > len(labels) // 2:
            continue  # a number of its own for each sample
        of = "" if len(labels) == len(dataset) else f" ({len(labels):,} of {format_count(len(dataset), 'sample')})"
        yield from _balance(cut(name, _SAID), counts, names, of)


def _labels(dataset: Dataset, name: str) -> npt.NDArray[np.int64]:
    """All labels, or as many as can be read in a few seconds, from all over the dataset."""
    end_s, parts = time.monotonic() + _TIME_S, []
    chosen = _spread(len(dataset), _MOST_LABELS)
    shuffled = np.random.default_rng(0).permutation(-(-len(chosen) // _LABELS_AT_A_TIME))
    for number in shuffled.tolist():
        if time.monotonic() > end_s:
            break
        where = chosen[number * _LABELS_AT_A_TIME : (number + 1) * _LABELS_AT_A_TIME]
        try:
            parts.append(np.asarray(dataset.read_values(where, name), np.int64))
        except _FAILURES:
            continue
    return np.concatenate(parts) if parts else np.empty(0, np.int64)


def _balance(field: str, counts: npt.NDArray[Any], names: Sequence[str] | None, of: str) -> Iterator[Chart]:
    """A bar for each class; of very many, the largest and the smallest, and how they are spread."""
    order = np.argsort(-counts, kind="stable").tolist()
    if len(order) <= _ALL_CLASSES:
        bars = [_bar(i, counts, names) for i in range(len(order))]
        yield BarChart(title=f"Classes of {field}{of}", unit="", bars=bars)
        return
    ends = [*order[:_SHOWN_CLASSES], *order[-_SHOWN_CLASSES:]]
    title = f"Largest and smallest {_SHOWN_CLASSES} of {format_count(len(order), 'class')} of {field}{of}"
    yield BarChart(title=title, unit="", bars=[_bar(i, counts, names) for i in ends])
    yield _histogram(f"Size of the classes of {field}{of}", "samples in a class", counts, "classes")


def _bar(number: int, counts: npt.NDArray[Any], names: Sequence[str] | None) -> Bar:
    known = names is not None and number < len(names)
    count = float(counts[number])
    return Bar(cut(str(names[number]) if known and names is not None else str(number), _SAID), count, count, count)


def _page_charts(dataset: Dataset) -> Iterator[Chart]:
    """How full the pages are, for formats that have some."""
    fill = getattr(dataset, "page_fill", lambda: None)()
    if fill is None or not len(fill):
        return
    counts = np.histogram((fill * 100).clip(0, 100), np.arange(0, 101, 2.5))[0]
    yield Histogram(
        title=f"Use of {format_count(len(fill), 'page')}, {fill.mean():.1%} on average",
        x_label="percent of a page that samples fill",
        y_label="pages",
        edges=np.arange(0, 101, 2.5).tolist(),
        counts=counts.tolist(),
    )
