"""Charts as SVG: bars with their spread, and points that may be joined; drawn here, so that a page needs nothing else.

Colours are those of the page (``--s0`` to ``--s7``, ``--ink``, ``--grid``), so that a chart is right in light and dark.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, TypeAlias

from headrace.bench.rows import format_value

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.bench.rows import Row

__all__ = ["Bar", "BarChart", "Chart", "Point", "PointChart", "bars_of", "draw"]

_WIDTH, _LABEL, _RIGHT = 860, 210, 150
_BAR, _GAP, _LEFT = 15, 9, 74
_PLOT_HEIGHT, _BOTTOM = 360, 52
_COLORS = 8
_LINE = 15  # between two labels


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar: whose it is, how long, its spread, and which colour it has."""

    label: str
    value: float
    low: float
    high: float
    series: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class BarChart:
    """Bars below each other; those of one label stand together, a colour for each series, named in a legend or not."""

    title: str
    unit: str
    bars: Sequence[Bar]
    has_legend: bool = True


@dataclass(frozen=True, slots=True)
class Point:
    """One point; points of one series have one colour, and may be joined."""

    x: float
    y: float
    label: str
    series: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class PointChart:
    """Points in a plane, joined by series or not."""

    title: str
    x_label: str
    y_label: str
    points: Sequence[Point]
    is_joined: bool = False
    is_log_x: bool = False
    is_log_y: bool = False


Chart: TypeAlias = BarChart | PointChart


def bars_of(rows: Sequence[Row], title: str, sections: Sequence[str]) -> list[BarChart]:
    """A chart of the rows of some sections, a colour for each; none where there are no such rows."""
    chosen = [row for row in rows if row.section in sections]
    if not chosen:
        return []
    labels = {row.name: None for row in chosen}  # in the order of the first section
    bars = [
        Bar(row.name, row.value, row.low, row.high, row.section.rpartition(": ")[2] if len(sections) > 1 else "")
        for label in labels
        for row in chosen
        if row.name == label
    ]
    return [BarChart(title=title, unit=chosen[0].unit, bars=bars)]


def draw(chart: Chart) -> str:
    """The chart as an SVG element."""
    return _draw_bars(chart) if isinstance(chart, BarChart) else _draw_points(chart)


def _series_of(names: Sequence[str]) -> dict[str, int]:
    return {name: number % _COLORS for number, name in enumerate(dict.fromkeys(names))}


def _svg(title: str, height: float, parts: Sequence[str]) -> str:
    label = f'<svg viewBox="0 0 {_WIDTH} {height:.0f}" role="img" aria-label="{escape(title)}">'
    return "\n".join([label, *parts, "</svg>"])


def _text(x: float, y: float, text: str, kind: str = "", anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}" text-anchor="{anchor}">{escape(text)}</text>'


def _line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{kind}"/>'


def _legend(series: dict[str, int]) -> tuple[list[str], float]:
    """What each colour means, in as many lines as it takes, and where they end; nothing for one colour."""
    parts: list[str] = []
    if len(series) < 2:
        return parts, 8.0
    x, y = float(_LEFT), 14.0
    for name, color in series.items():
        width = 34 + 6.6 * len(name)
        if x + width > _WIDTH and x > _LEFT:
            x, y = float(_LEFT), y + _LINE + 3
        parts.append(f'<rect x="{x:.1f}" y="{y - 9:.1f}" width="10" height="10" rx="2" class="s{color}"/>')
        parts.append(_text(x + 15, y, name, "small"))
        x += width
    return parts, y + 16


# Bars


def _draw_bars(chart: BarChart) -> str:
    series = _series_of([bar.series for bar in chart.bars])
    longest = max((bar.high for bar in chart.bars), default=0) or 1.0
    parts, top = _legend(series if chart.has_legend else {})
    y = top
    scale = (_WIDTH - _LABEL - _RIGHT) / longest
    last = None
    for bar in chart.bars:
        if bar.label != last:
            y += _GAP if last is not None else 0
            parts.append(_text(_LABEL - 10, y + _BAR - 3, bar.label, anchor="end"))
            last = bar.label
        parts += _draw_bar(bar, chart.unit, y, scale, series[bar.series])
        y += _BAR + 2
    parts.append(_line(_LABEL, top - 4, _LABEL, y + 2, "axis"))
    return _svg(chart.title, y + 10, parts)


def _draw_bar(bar: Bar, unit: str, y: float, scale: float, color: int) -> list[str]:
    value = format_value(bar.value, unit)
    told = f"{bar.label}{', ' if bar.series else ''}{bar.series}: {value}"
    length, end = max(bar.value * scale, 1.0), max(bar.high, bar.value) * scale
    middle = y + _BAR / 2
    parts = [
        f'<rect x="{_LABEL}" y="{y:.1f}" width="{length:.1f}" height="{_BAR}" rx="2" class="s{color}">'
        f"<title>{escape(told)}</title></rect>"
    ]
    if bar.high > bar.low:
        parts.append(_line(_LABEL + bar.low * scale, middle, _LABEL + bar.high * scale, middle, "spread"))
    return [*parts, _text(_LABEL + end + 6, y + _BAR - 3, value, "small")]


# Points


class _Axis:
    """Values of one direction to places on the page."""

    def __init__(self, values: Sequence[float], start: float, end: float, *, is_log: bool) -> None:
        usable = [value for value in values if math.isfinite(value) and (value > 0 or not is_log)]
        low, high = (min(usable), max(usable)) if usable else (1.0, 10.0)
        self._is_log, self._start, self._end = is_log, start, end
        if is_log:
            self.ticks = _log_ticks(low, high)
        else:
            self.ticks = _round_ticks(min(low, 0.0), high if high > min(low, 0.0) else low + 1.0)
        self._low, self._high = self._scaled(self.ticks[0]), self._scaled(self.ticks[-1])

    def _scaled(self, value: float) -> float:
        return math.log10(value) if self._is_log else value

    def place(self, value: float) -> float:
        if self._is_log and value <= 0:
            return self._start
        share = (self._scaled(value) - self._low) / (self._high - self._low)
        return self._start + share * (self._end - self._start)


def _round_ticks(low: float, high: float) -> list[float]:
    """About five round numbers that cover a range."""
    rough = (high - low) / 5
    unit = 10.0 ** math.floor(math.log10(rough))
    step = next(unit * factor for factor in (1, 2, 5, 10) if unit * factor >= rough)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [number * step for number in range(first, last + 1)]


def _log_ticks(low: float, high: float) -> list[float]:
    """Powers of ten that cover a range; also twice and five times these where there are few."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    steps = (1, 2, 5) if len(powers) <= 4 else (1,)
    ticks = [factor * 10.0**power for power in powers for factor in steps]
    first = max((tick for tick in ticks if tick <= low), default=ticks[0])
    last = min((tick for tick in ticks if tick >= high), default=ticks[-1])
    return [tick for tick in ticks if first <= tick <= max(last, first * 1.5)] if last > first else [first, first * 10]


def _short(value: float) -> str:
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= limit:
            return f"{value / limit:g}{unit}"
    return f"{value:.4g}"


def _draw_points(chart: PointChart) -> str:
    series = _series_of([point.series for point in chart.points])
    parts, top = _legend(series)
    left, right, bottom = float(_LEFT), _WIDTH - _RIGHT, top + _PLOT_HEIGHT
    across = _Axis([point.x for point in chart.points], left, right, is_log=chart.is_log_x)
    up = _Axis([point.y for point in chart.points], bottom, top, is_log=chart.is_log_y)
    for tick in up.ticks:
        parts.append(_line(left, up.place(tick), right, up.place(tick), "grid"))
        parts.append(_text(left - 8, up.place(tick) + 4, _short(tick), "small", "end"))
    parts += [_text(across.place(tick), bottom + 18, _short(tick), "small", "middle") for tick in across.ticks]
    parts.append(_line(left, bottom, right, bottom, "axis"))
    parts.append(_text((left + right) / 2, bottom + 40, chart.x_label, "small", "middle"))
    parts.append(
        f'<text transform="translate(16 {(top + bottom) / 2:.1f}) rotate(-90)" class="small" '
        f'text-anchor="middle">{escape(chart.y_label)}</text>'
    )
    placed = [(point, across.place(point.x), up.place(point.y)) for point in chart.points]
    if chart.is_joined:
        parts += _joins(placed, series)
    parts += [_dot(point, x, y, series[point.series]) for point, x, y in placed]
    return _svg(chart.title, bottom + _BOTTOM, [*parts, *_labels(placed)])


def _joins(placed: Sequence[tuple[Point, float, float]], series: dict[str, int]) -> list[str]:
    parts = []
    for name, color in series.items():
        path = " ".join(f"{x:.1f},{y:.1f}" for point, x, y in placed if point.series == name)
        parts.append(f'<polyline points="{path}" class="l{color}"/>')
    return parts


def _dot(point: Point, x: float, y: float, color: int) -> str:
    told = f"{point.label or point.series}: {_short(point.x)}, {_short(point.y)}"
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5" class="s{color}"><title>{escape(told)}</title></circle>'


def _labels(placed: Sequence[tuple[Point, float, float]]) -> list[str]:
    """Names beside points; one that would lie on another, or on a point, moves down."""
    parts: list[str] = []
    taken = [(x - 6, x + 6, y + 4, 9.0) for _, x, y in placed]  # from, to, middle, and how close is too close
    for point, x, y in sorted(placed, key=lambda one: (one[2], one[1])):
        if not point.label:
            continue
        start, end, at = x + 9, x + 13 + 6.6 * len(point.label), y + 4
        while any(start < right and left < end and abs(at - line) < near for left, right, line, near in taken):
            at += _LINE / 5
        taken.append((start, end, at, _LINE))
        parts.append(_text(start, at, point.label, "small"))
    return parts
