from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.helpers import Surgeon, image_file, picture, write_folder

import headrace
from headrace.formats import report
from headrace.formats.report import Found, check_all
from headrace.types import Problem

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

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


class Watch:
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.samples: list[int | None] = []
        self.done: list[int] = []

    def __call__(self, done: int, total: int | None, size_bytes: int) -> None:
        self.done.append(done)

    def found(self, problems: Sequence[Problem]) -> None:
        assert problems, "nothing new is not told"
        self.samples += [problem.sample for problem in problems]


def test_problems_are_told_as_they_are_found() -> None:
    watch = Watch()
    found = check_all(check_odd, 1000, workers=2, progress=watch)
    assert watch.samples == [problem.sample for problem in found.problems]
    assert watch.done[-1] == 1000


def test_whoever_raises_in_progress_ends_the_work() -> None:
    checked: list[int] = []

    def check(indices: IndexArray) -> Found:
        checked.extend(indices.tolist())
        return Found(samples=len(indices))

    def stop(done: int, total: int | None, size_bytes: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        check_all(check, 1_000_000, workers=2, progress=stop)
    assert len(checked) < 10_000


@pytest.mark.parametrize("kind", ["beton", "tar", "barecat", "folder", "joined", "set"])
def test_every_way_of_checking_tells_what_it_finds(kind: str, tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "in", {f"a/{i:02}.jpg": image_file(picture(i, 24, 24), "JPEG") for i in range(20)})
    damaged = folder / "a" / "07.jpg"
    damaged.write_bytes(damaged.read_bytes()[:-40])
    path = folder
    if kind in ("tar", "barecat"):
        path = tmp_path / f"x.{kind}"
        headrace.convert(folder, path)
    if kind in ("beton", "joined", "set"):
        path = tmp_path / "x.beton"
        fields = {"n": headrace.Int(), "data": headrace.Bytes()}
        headrace.write(path, [(i, b"x" * 99) for i in range(20)], fields=fields)
        flip_last_payload(path)
    watch = Watch()
    if kind == "set":
        (tmp_path / "y.beton").write_bytes(path.read_bytes())
        report = headrace.verify([path, tmp_path / "y.beton"], progress=watch)
    elif kind == "joined":
        report = headrace.concat([headrace.open(path), headrace.open(path)]).verify(progress=watch)
    else:
        report = headrace.open(path).verify(decode=True, progress=watch)
    assert tuple(watch.samples) == report.bad_samples
    assert len(report.bad_samples) == (2 if kind in ("joined", "set") else 1)


def flip_last_payload(path: Path) -> None:
    surgeon = Surgeon(path)
    surgeon.flip(int(surgeon.table[-1][1]) + 3)
    path.write_bytes(surgeon.data)
