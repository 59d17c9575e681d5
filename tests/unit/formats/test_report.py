from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from headrace.formats import report
from headrace.formats.report import Found, check_all
from headrace.types import Problem

if TYPE_CHECKING:
    from headrace.types import IndexArray


def check_odd(indices: IndexArray) -> Found:
    problems = [Problem(sample=i, field="x", message="odd") for i in indices.tolist() if i % 2]
    return Found(samples=len(indices), checksums=2 * len(indices), size_bytes=int(indices.sum()), problems=problems)


@pytest.mark.parametrize("workers", [None, 1, 3])
@pytest.mark.parametrize("length", [0, 1, 256, 1000])
def test_all_samples_are_checked_once_whatever_the_workers(workers: int | None, length: int) -> None:
    calls: list[tuple[int, int | None, int]] = []
    found = check_all(check_odd, length, workers=workers, progress=lambda *told: calls.append(told))
    assert (found.samples, found.checksums, found.size_bytes) == (length, 2 * length, sum(range(length)))
    assert [p.sample for p in found.problems] == list(range(1, length, 2))
    assert [done for done, _, _ in calls] == [*range(256, length, 256), length][: len(calls)]
    assert not length or calls[-1] == (length, length, found.size_bytes)


def test_what_a_check_raises_ends_the_work() -> None:
    def fail(indices: IndexArray) -> Found:
        raise OSError(5, "the disk is gone")

    with pytest.raises(OSError, match="the disk is gone"):
        check_all(fail, 1000, workers=2, progress=None)


def test_a_report_lists_the_first_problems_and_counts_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "MAX_PROBLEMS", 3)
    found = check_odd_up_to(10).report("x.beton")
    assert (found.path, found.ok, found.bad_samples, found.problems_left_out) == ("x.beton", False, (1, 3, 5), 2)
    assert Found().report("x").ok


def check_odd_up_to(length: int) -> Found:
    return check_all(check_odd, length, workers=1, progress=None)
