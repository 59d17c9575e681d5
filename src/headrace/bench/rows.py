"""What a suite finds out: rows of figures, and what is missing."""

from __future__ import annotations

import statistics
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self, TypeAlias

from headrace.charts import format_value

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

__all__ = [
    *("Better", "Cache", "Finding", "Missing", "Ratio", "Row", "compared_rows", "exact_row", "format_value"),
    *("median_row", "rate_row"),
]

Better: TypeAlias = Literal["higher", "lower", ""]
Cache: TypeAlias = Literal["warm", "cold", ""]


class Ratio(NamedTuple):
    """How many times as good as another row of the section, round by round: the median and the quartiles."""

    value: float
    low: float
    high: float

    @property
    def text(self) -> str:
        """The ratio in words."""
        return f"{self.value:.2f}x ({self.low:.2f} to {self.high:.2f})"


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
        beside: ratios to the peers of the section, by their names.
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
    beside: Mapping[str, Ratio] = field(default_factory=dict)
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

    def with_facts(self, facts: Mapping[str, Any], cache: Cache | None = None) -> Row:
        """The same with more facts."""
        return replace(self, facts={**self.facts, **facts}, cache=self.cache if cache is None else cache)

    def renamed(self, name: str, section: str) -> Row:
        """The same figure for another table or picture."""
        return replace(self, name=name, section=section)

    @classmethod
    def from_json(cls, told: Mapping[str, Any]) -> Self:
        """The row that a file has."""
        beside = {name: Ratio(*ratio) for name, ratio in told["beside"].items()}
        return cls(**{name: value for name, value in told.items() if name != "text"} | {"beside": beside})


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


def exact_row(section: str, name: str, value: float, *, unit: str, better: Better = "", **facts: Any) -> Row:
    """A row of what does not vary, such as a size."""
    return median_row(section, name, [value], unit=unit, better=better, **facts)


def compared_rows(
    section: str,
    seconds: Mapping[str, Sequence[float]],
    peers: Sequence[str] = (),
    *,
    samples: float = 1,
    unit: str = "samples/s",
    cache: Cache = "",
    facts: Mapping[str, Mapping[str, Any]] | None = None,
) -> Iterator[Row]:
    """A row for each contender of the same rounds; those that are no peers are compared with each peer.

    Args:
        section: of all rows.
        seconds: of each contender and round.
        peers: which of them the others are compared with.
        samples: how many a contender has done in these seconds.
        unit: of the rates; ``s`` shows the seconds themselves.
        cache: whether the files were in memory.
        facts: more about some of them.
    """
    for name, taken in seconds.items():
        more = dict((facts or {}).get(name, {}))
        if unit == "s":
            row = median_row(section, name, taken, unit=unit, better="lower", cache=cache, **more)
        else:
            row = rate_row(section, name, taken, samples=samples, unit=unit, cache=cache, **more)
        beside = {} if name in peers else {peer: _ratio(seconds[peer], taken) for peer in peers if peer in seconds}
        yield replace(row, beside=beside)


def _ratio(theirs: Sequence[float], ours: Sequence[float]) -> Ratio:
    """Of the rounds in which both took part, which are the last."""
    both = min(len(theirs), len(ours))
    pairs = [their / max(our, 1e-9) for their, our in zip(theirs[-both:], ours[-both:], strict=True)]
    return Ratio(statistics.median(pairs), *_quartiles(pairs))


def _quartiles(values: Sequence[float]) -> tuple[float, float]:
    ordered = sorted(values)
    return ordered[len(ordered) // 4], ordered[-1 - len(ordered) // 4]
