from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest
from tests.helpers import Surgeon

import headrace as hr
from headrace.formats import report as reports
from headrace.types import Problem, Report
from headrace.viewer import verification
from headrace.viewer.verification import Verification

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from headrace.types import Progress


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    """Forty samples, of which 7 and 31 have a flipped bit."""
    path = tmp_path / "x.beton"
    names = [f"sample-{i}" for i in range(40)]
    hr.write(path, [bytes([i]) * 99 for i in range(40)], fields={"data": hr.Bytes()}, names=names)
    surgeon = Surgeon(path)
    table = surgeon.table
    for i in (7, 31):
        surgeon.flip(int(table[table[:, 0] == i][0][1]) + 5)
    return surgeon.save()


def test_a_check_finds_what_verify_finds(damaged: Path) -> None:
    with hr.open(damaged) as dataset:
        check = Verification(dataset)
        assert check.damaged is None
        assert check.facts()["state"] == "idle"
        assert check.start(decode=False)
        check.join(20)
        facts = check.facts()
        assert (facts["state"], facts["done"], facts["total"], facts["damaged"]) == ("done", 40, 40, 2)
        assert facts["checksums_checked"] > 40
        assert check.damaged is not None
        assert check.damaged.tolist() == [7, 31]
        found = check.problems(0, 10)
        assert [(one["sample"], one["name"]) for one in found["problems"]] == [(7, "sample-7"), (31, "sample-31")]
        assert "checksum" in found["problems"][0]["message"]
        assert check.problems(1, 10)["problems"] == found["problems"][1:]
        assert check.problems(5, 10)["problems"] == []


class Slow:
    """A dataset whose check waits after every sample."""

    path, has_checksums, keys = "slow", False, None

    def __init__(self, problems: Sequence[Problem] = ()) -> None:
        self.step = threading.Semaphore(0)
        self.told = threading.Semaphore(0)
        self.problems = problems

    def __len__(self) -> int:
        return 5

    def verify(self, *, decode: bool, workers: int | None, progress: Progress) -> Report:
        for i in range(5):
            self.step.acquire(timeout=10)
            progress.found([Problem(sample=i, field="x", message="bad")])  # type: ignore[attr-defined]
            try:
                progress(i + 1, 5, 10 * i)
            finally:
                self.told.release()
        facts: dict[str, Any] = {"samples_checked": 5, "checksums_checked": 0, "images_decoded": 0, "size_bytes": 50}
        return Report(path="slow", problems=tuple(self.problems), **facts)


def advance(dataset: Slow, steps: int = 1) -> None:
    for _ in range(steps):
        dataset.step.release()
        dataset.told.acquire(timeout=10)


def test_problems_appear_while_it_runs_and_one_check_runs_at_a_time() -> None:
    dataset = Slow([Problem(sample=1, field=None, message="bad")])
    check = Verification(dataset)  # type: ignore[arg-type]
    check.start(decode=True)
    advance(dataset, 2)
    assert not check.start(decode=False)
    facts = check.facts()
    assert (facts["state"], facts["done"], facts["problems"], facts["decode"]) == ("running", 2, 2, True)
    assert [one["sample"] for one in check.problems(0, 9)["problems"]] == [0, 1]
    advance(dataset, 3)
    check.join(10)
    assert check.damaged is not None
    assert check.damaged.tolist() == [1], "the report has the last word"


def test_stopping_keeps_what_was_found() -> None:
    dataset = Slow()
    check = Verification(dataset)  # type: ignore[arg-type]
    check.start(decode=False)
    advance(dataset, 2)
    assert check.stop()
    assert check.facts()["state"] == "stopping"
    advance(dataset)
    check.join(10)
    facts = check.facts()
    assert (facts["state"], facts["done"], facts["damaged"]) == ("stopped", 3, 3)
    assert check.start(decode=False)
    assert check.facts()["problems"] == 0
    advance(dataset, 5)
    check.join(10)
    assert check.facts()["state"] == "done"


def test_many_problems_are_counted_and_their_samples_kept(monkeypatch: pytest.MonkeyPatch, damaged: Path) -> None:
    monkeypatch.setattr(verification, "MAX_PROBLEMS", 1)
    monkeypatch.setattr(reports, "MAX_PROBLEMS", 1)
    with hr.open(damaged) as dataset:
        check = Verification(dataset)
        check.start(decode=False)
        check.join(20)
        assert (check.facts()["problems"], len(check.problems(0, 9)["problems"])) == (2, 1)
        assert check.damaged is not None
        assert check.damaged.tolist() == [7, 31]


def test_a_check_that_cannot_go_on_says_why() -> None:
    class Broken(Slow):
        def verify(self, **options: object) -> Report:
            raise OSError("the disk is gone")

    check = Verification(Broken())  # type: ignore[arg-type]
    check.start(decode=False)
    check.join(10)
    assert (check.facts()["state"], check.facts()["error"]) == ("failed", "the disk is gone")
