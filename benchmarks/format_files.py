"""Rows of the suites about formats."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Any

from benchmarks.harness import ratio, row

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["left_out", "ratios"]


def left_out(reasons: Mapping[str, str]) -> list[dict[str, Any]]:
    """A line for each format that does not hold the samples."""
    return [{"what": f"{name}: left out", "text": reason} for name, reason in reasons.items()]


def ratios(
    what: str, seconds: Mapping[str, list[float]], base: str, *, samples: int, size_bytes: int = 0, **facts: Any
) -> list[dict[str, Any]]:
    """A row for each contender, and one that compares it with ``base``, of paired rounds."""
    rows = [
        row(f"{what}: {name}", taken, samples=samples, size_bytes=size_bytes) | facts for name, taken in seconds.items()
    ]
    for name, taken in seconds.items():
        if name != base and base in seconds:
            # The machine's mood is the same for both of a round.
            pairs = sorted(a / b for a, b in zip(seconds[base], taken, strict=True))
            line = ratio(f"{what}: {name}", statistics.median(pairs), f"the rate of {base}")
            rows.append(line | {"quartiles": [pairs[len(pairs) // 4], pairs[-1 - len(pairs) // 4]]} | facts)
    return rows
