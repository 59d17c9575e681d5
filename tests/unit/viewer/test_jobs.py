"""Work that outlasts requests: turns, what is given up, what is forgotten, and the end."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from headrace.errors import ClosedError
from headrace.viewer.jobs import Job, Jobs, ask_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Work:
    """Jobs that go on until they are let go, and remember how they ended."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.ended: list[str] = []

    def of(self, name: str) -> Callable[[Job], dict[str, Any]]:
        def run(job: Job) -> dict[str, Any]:
            try:
                while not self.go.wait(0.005):
                    job.check(1, 2)
            except BaseException:
                self.ended.append(name)
                raise
            return {"name": name}

        return run


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> Iterator[Work]:
    monkeypatch.setattr("headrace.viewer.jobs._FIRST_WAIT_S", 0.02)
    made = Work()
    yield made
    made.go.set()


def until(function: Callable[[], object]) -> None:
    end_s = time.monotonic() + 20
    while not function():
        assert time.monotonic() < end_s
        time.sleep(0.01)


def test_the_job_that_nobody_asks_for_makes_room(work: Work, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.viewer.jobs._UNASKED_S", 0.1)
    jobs = Jobs(most=2)
    for letters in ("a", "ab", "abc", "abcd", "abcde"):  # as somebody types
        until(lambda letters=letters: jobs.ask(letters, work.of(letters)).is_started)
    until(lambda: work.ended == ["a", "ab", "abc"])
    work.go.set()
    assert jobs.ask("abcde", work.of("abcde")).result == {"name": "abcde"}
    jobs.close()


def test_jobs_that_are_asked_for_wait_for_their_turn(work: Work) -> None:
    jobs = Jobs(most=1)
    first, second = (ask_for(jobs, name, work.of(name)) for name in ("a", "b"))
    assert first["state"] == second["state"] == "working"
    assert ask_for(jobs, "a", work.of("a")) == {"state": "working", "done": 1, "total": 2}
    work.go.set()
    until(lambda: ask_for(jobs, "a", work.of("a"))["state"] == "ready")
    until(lambda: ask_for(jobs, "b", work.of("b")) == {"state": "ready", "name": "b"})
    assert work.ended == []
    jobs.close()


def test_what_failed_or_was_given_up_is_forgotten(work: Work, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.viewer.jobs._PATIENCE_S", 0.05)
    jobs = Jobs()

    def fail(job: Job) -> None:
        time.sleep(0.1)
        raise ValueError("no")

    assert jobs.ask("failed", fail).is_running
    assert jobs.ask("left", work.of("left")).is_running
    until(lambda: work.ended == ["left"])
    time.sleep(0.2)
    jobs.ask("other", lambda job: {})
    assert list(jobs._jobs) == ["other"]
    jobs.close()


def test_an_error_is_raised_where_it_is_asked_for() -> None:
    jobs = Jobs()
    with pytest.raises(ZeroDivisionError):
        jobs.ask("x", lambda job: 1 // 0)
    assert jobs.ask("x", lambda job: 5).result == 5
    jobs.close()


def test_closing_ends_all_jobs(work: Work) -> None:
    jobs = Jobs(most=1)
    running, waiting = jobs.ask("a", work.of("a")), jobs.ask("b", work.of("b"))
    jobs.close()
    assert work.ended == ["a"]
    assert not running.is_running
    assert not waiting.is_started
    with pytest.raises(ClosedError):
        jobs.ask("c", work.of("c"))
