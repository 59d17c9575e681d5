"""What a suite finds out: rows of figures, and what is missing."""

from __future__ import annotations

import statistics
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from headrace.progress import format_bytes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["Better", "Cache", "Finding", "Missing", "Row", "format_value", "median_row", "rate_row", "ratio_row"]

Better: TypeAlias = Literal["higher", "lower", ""]
Cache: TypeAlias = Literal["warm", "cold", ""]


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """One figure: the median of its repetitions, and the quartiles as its spread.

    Args:
        section: the table that it stands in.
        name: whose figure it is; together with the section no other row has it.
        value: the median.
        unit: of value, low and high.
        better: which way is better; empty where neither is.
        low: the lower quartile.
        high: the upper quartile.
        repeats: how often it was measured; 1 for what does not vary, such as sizes.
        cache: whether the files were in memory, where that matters.
        facts: further figures of the same measurement.
    """

    section: str
    name: str
    value: float
    unit: str
    better: Better = ""
    low: float
    high: float
    repeats: int = 1
    cache: Cache = ""
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """What the row is called when two results are compared."""
        return f"{self.section}: {self.name}"

    @property
    def text(self) -> str:
        """The figure in words."""
        value = format_value(self.value, self.unit)
        if self.repeats < 2:
            return value
        return f"{value} ({self.spread})"

    @property
    def spread(self) -> str:
        """The quartiles in words; empty for what was measured once."""
        if self.repeats < 2:
            return ""
        low = format_value(self.low, self.unit if self.unit in ("s", "bytes", "x") else "")
        return f"{low} to {format_value(self.high, self.unit)}"

    def as_json(self) -> dict[str, Any]:
        """What goes into a file."""
        return asdict(self) | {"text": self.text}


@dataclass(frozen=True, slots=True)
class Missing:
    """Something that was not measured, and why."""

    name: str
    reason: str


Finding: TypeAlias = Row | Missing


def median_row(
    section: str, name: str, values: Sequence[float], *, unit: str, better: Better = "", cache: Cache = "", **facts: Any
) -> Row:
    """A row from the values of all repetitions."""
    low, high = _quartiles(values)
    return Row(
        section=section,
        name=name,
        value=statistics.median(values),
        unit=unit,
        better=better,
        low=low,
        high=high,
        repeats=len(values),
        cache=cache,
        facts=facts,
    )


def rate_row(
    section: str,
    name: str,
    seconds: Sequence[float],
    *,
    samples: float,
    unit: str = "samples/s",
    cache: Cache = "",
    **facts: Any,
) -> Row:
    """A row of how many a second, from the seconds that so many took each time."""
    rates = [samples / max(taken, 1e-9) for taken in seconds]
    return median_row(section, name, rates, unit=unit, better="higher", cache=cache, **facts)


def ratio_row(section: str, name: str, pairs: Sequence[float], **facts: Any) -> Row:
    """A row of how many times as fast as another contender of the same rounds."""
    return median_row(section, name, pairs, unit="x", better="higher", **facts)


def _quartiles(values: Sequence[float]) -> tuple[float, float]:
    ordered = sorted(values)
    return ordered[len(ordered) // 4], ordered[-1 - len(ordered) // 4]


def format_value(value: float, unit: str) -> str:
    """Spell a figure for people.

    Example:
        >>> format_value(12345.6, "samples/s"), format_value(0.0021, "s"), format_value(2048, "bytes")
        ('12,346 samples/s', '2.10 ms', '2.0 KiB')
    """
    if unit == "bytes":
        return format_bytes(value)
    if unit == "s":
        return _format_seconds(value)
    digits = f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    return f"{digits}{unit}" if unit == "x" else f"{digits} {unit}".rstrip()


def _format_seconds(value: float) -> str:
    for factor, unit in ((1.0, "s"), (1e3, "ms")):
        if value * factor >= 1:
            return f"{value * factor:.2f} {unit}"
    return f"{value * 1e6:.1f} µs"
