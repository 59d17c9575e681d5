"""Two results of one suite: what became worse by more than both vary."""

from __future__ import annotations

import json
import math
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headrace.bench.report import VERSION
from headrace.charts import format_value

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

__all__ = ["Change", "Comparison", "check_comparable", "compare", "read_result"]

_TIMED_SHARE, _EXACT_SHARE = 0.05, 0.005
"""What a figure has to change by at least: quartiles of few repetitions may lie closer together than chance does."""


_MAY_BE_ZERO = ("levels of 255",)
"""Units of pixels: nothing is as good as no difference, so any is worse."""


@dataclass(frozen=True, slots=True)
class Change:
    """One figure then and now; ``factor`` is how many times as good it is now."""

    key: str
    factor: float
    text: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """What two results say about each other.

    Args:
        worse: figures whose spreads do not touch, and that became worse.
        better: the same the other way.
        gone: what was measured then and not now.
        differences: facts about the machine that differ; then times say little.
    """

    worse: Sequence[Change]
    better: Sequence[Change]
    gone: Sequence[str]
    differences: Sequence[str]


def read_result(path: str | Path) -> dict[str, Any]:
    """A result that was written before; ValueError for any other file."""
    name = os.fspath(path)
    with open(path, encoding="utf-8") as file:
        try:
            found = json.load(file)
        except ValueError as error:
            raise ValueError(f"{name} is not a result of headrace bench: it is not JSON ({error})") from None
    if not isinstance(found, dict) or found.get("version") != VERSION or not isinstance(found.get("rows"), list):
        raise ValueError(f"{name} is not a result of headrace bench of this version; measure again to make one")
    if not all(_is_row(row) for row in found["rows"]) or not isinstance(found.get("settings"), dict):
        raise ValueError(f"{name} is damaged: a row lacks its key, value or spread; measure again to make one")
    return found


def _is_row(row: object) -> bool:
    if not isinstance(row, dict) or not all(isinstance(row.get(name), str) for name in ("section", "name", "unit")):
        return False
    numbers = [row.get(name) for name in ("value", "low", "high", "repeats")]
    return row.get("better") in ("higher", "lower", "") and all(isinstance(n, int | float) for n in numbers)


def check_comparable(old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    """ValueError when two results, or a result and what is about to be measured, are about different things."""
    for name in ("suite", "settings"):
        if old.get(name) != new.get(name):
            raise ValueError(
                f"the two results cannot be compared: {name} was {old.get(name)!r} and is {new.get(name)!r}; "
                "measure with the same suite and options"
            )


def compare(old: Mapping[str, Any], new: Mapping[str, Any]) -> Comparison:
    """Compare two results; ValueError when they have measured different things."""
    check_comparable(old, new)
    before = {_key(row): row for row in old["rows"]}
    after = {_key(row): row for row in new["rows"]}
    changes = [_change(key, before[key], row) for key, row in after.items() if key in before and row["better"]]
    told = [change for change in changes if change is not None]
    return Comparison(
        worse=[change for change in told if change.factor < 1],
        better=[change for change in told if change.factor > 1],
        gone=[key for key in before if key not in after],
        differences=_differences(old.get("environment"), new.get("environment")),
    )


def _key(row: Mapping[str, Any]) -> str:
    return f"{row['section']}: {row['name']}"


def _change(key: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> Change | None:
    """None where the spreads touch, or the change is too small to mean anything."""
    if old["unit"] != new["unit"] or old["value"] == new["value"]:
        return None
    if min(old["value"], new["value"]) <= 0 and old["unit"] not in _MAY_BE_ZERO:
        return None
    if new["low"] <= old["high"] and old["low"] <= new["high"]:
        return None
    good, then = (new["value"], old["value"]) if new["better"] == "higher" else (old["value"], new["value"])
    factor = good / then if then else math.inf
    least = _EXACT_SHARE if old["repeats"] == new["repeats"] == 1 else _TIMED_SHARE
    if abs(factor - 1) <= least:
        return None
    text = f"{format_value(old['value'], old['unit'])} then, {format_value(new['value'], new['unit'])} now"
    return Change(key, factor, text)


def _differences(old: object, new: object) -> list[str]:
    if not isinstance(old, dict) or not isinstance(new, dict):
        return ["the environment is not known"]
    names = ("cpu", "cores", "simd", "python")
    return [f"{name}: {old.get(name)} then, {new.get(name)} now" for name in names if old.get(name) != new.get(name)]
