from __future__ import annotations

import threading
import time

from headrace.viewer.background import BackgroundTask


def test_work_runs_once_at_a_time_and_says_how_far_it_is() -> None:
    go = threading.Event()
    runs: list[int] = []

    def work(task: BackgroundTask) -> None:
        runs.append(1)
        task(5, 20, 100)
        go.wait(10)
        task(20, 20, 400)

    task = BackgroundTask(work)
    assert task.facts()["state"] == "idle"
    assert task.start()
    assert not task.start(), "it runs already"
    while not task.facts()["done"]:
        time.sleep(0.001)
    facts = task.facts()
    assert (facts["state"], facts["done"], facts["total"], facts["size_bytes"]) == ("running", 5, 20, 100)
    assert facts["rate"] > 0
    assert facts["left_s"] > 0
    go.set()
    task.join(10)
    facts = task.facts()
    assert (facts["state"], facts["done"], facts["left_s"], runs) == ("done", 20, None, [1])
    elapsed_s = facts["elapsed_s"]
    assert task.facts()["elapsed_s"] == elapsed_s, "the clock stands still after the end"
    assert task.start()
    task.join(10)
    assert runs == [1, 1]


def test_stopping() -> None:
    def endless(task: BackgroundTask) -> None:
        while True:
            task(1, None, 0)

    task = BackgroundTask(endless)
    assert not task.stop()
    task.start()
    assert task.stop()
    task.join(10)
    assert task.facts()["state"] == "stopped"
    assert not task.stop()


def test_failing_work_leaves_its_text_and_its_place() -> None:
    def fail(task: BackgroundTask) -> None:
        raise OSError("the disk is gone")

    tasks = [BackgroundTask(fail) for _ in range(5)]
    for task in tasks:
        task.start()
        task.join(10)
        assert (task.facts()["state"], task.facts()["error"]) == ("failed", "the disk is gone")


def test_more_work_waits_for_its_turn_and_can_be_stopped_while_it_waits() -> None:
    go = threading.Event()
    tasks = [BackgroundTask(lambda task: go.wait(10) and None) for _ in range(3)]
    for task in tasks:
        task.start()
    while [task.state for task in tasks].count("running") < 2:
        time.sleep(0.001)
    (waiting,) = [task for task in tasks if task.state == "waiting"]
    waiting.stop()
    waiting.join(10)
    assert waiting.state == "stopped"
    go.set()
    for task in tasks:
        task.join(10)
    assert sorted(task.state for task in tasks) == ["done", "done", "stopped"]
