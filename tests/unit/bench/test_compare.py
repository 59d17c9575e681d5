"""Two results beside each other: only what changed beyond the spread is told."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from headrace.bench.compare import compare, read_result
from headrace.bench.rows import Row, median_row

if TYPE_CHECKING:
    from pathlib import Path


def result(*rows: Row, cpu: str = "x", **changes: Any) -> dict[str, Any]:
    settings = {"images": None, "quick": True, "samples": None, "rounds": None}
    found = {"version": 2, "suite": "formats", "settings": settings, "environment": {"cpu": cpu}}
    return found | {"rows": [row.as_json() for row in rows]} | changes


def rate(*values: float, name: str = "beton") -> Row:
    return median_row("reads", name, values, unit="samples/s", better="higher")


def size(value: float) -> Row:
    return median_row("size", "beton", [value], unit="bytes", better="lower")


def test_a_regression_beyond_the_spread() -> None:
    found = compare(result(rate(98, 100, 102)), result(rate(60, 61, 62)))
    (change,) = found.worse
    assert (change.key, round(change.factor, 2)) == ("reads: beton", 0.61)
    assert not found.better
    back = compare(result(rate(60, 61, 62)), result(rate(98, 100, 102)))
    assert not back.worse
    assert len(back.better) == 1


def test_within_the_spread_is_no_regression() -> None:
    assert not compare(result(rate(80, 100, 120)), result(rate(70, 75, 85))).worse
    assert not compare(result(rate(99.9, 100, 100.1)), result(rate(97, 97.5, 98))).worse  # too small to mean anything


def test_what_does_not_vary_is_taken_exactly() -> None:
    assert len(compare(result(size(1000)), result(size(1020))).worse) == 1
    assert not compare(result(size(1000)), result(size(1001))).worse
    assert len(compare(result(size(1000)), result(size(900))).better) == 1


def pixels(value: float) -> Row:
    return median_row("difference", "ours", [value] * 3, unit="levels of 255", better="lower")


def test_pixels_that_become_worse() -> None:
    assert len(compare(result(pixels(0.5)), result(pixels(0.6))).worse) == 1
    (change,) = compare(result(pixels(0)), result(pixels(0.1))).worse  # they were the same to the bit
    assert change.factor == 0
    assert len(compare(result(pixels(0.1)), result(pixels(0))).better) == 1
    assert not compare(result(pixels(0)), result(pixels(0))).worse
    assert not compare(result(size(0)), result(size(10))).worse


def test_what_is_gone_and_what_is_another_machine() -> None:
    found = compare(result(rate(1), rate(1, name="tar")), result(rate(1), cpu="y"))
    assert found.gone == ["reads: tar"]
    assert found.differences == ["cpu: x then, y now"]


@pytest.mark.parametrize("changes", [{"suite": "codecs"}, {"settings": {"quick": False}}])
def test_different_measurements_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="cannot be compared"):
        compare(result(rate(1)), result(rate(1), **changes))


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", '{"version": 2, "rows": 3}', '{"version": 2, "rows": [{}], "settings": {}}', "\x00"]
)
def test_other_files_are_refused(content: str, tmp_path: Path) -> None:
    path = tmp_path / "old.json"
    path.write_text(content)
    with pytest.raises(ValueError, match=r"old\.json"):
        read_result(path)


def test_a_result_is_read(tmp_path: Path) -> None:
    path = tmp_path / "old.json"
    path.write_text(json.dumps(result(rate(1, 2, 3))))
    assert compare(read_result(path), result(rate(1, 2, 3))).worse == []
