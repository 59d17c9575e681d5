from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from headrace.errors import WorkerDiedError, WriteError
from headrace.formats.process_pool import interrupt_held, open_processes

MIB = 1 << 20


class Stubborn(Exception):
    """Pickles, and then cannot be unpickled."""

    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"{one} and {two}")


def work(task: str) -> Any:
    match task:
        case "pid":
            return os.getpid()
        case "big":
            return bytes(8 * MIB)
        case "die":
            os.kill(os.getpid(), signal.SIGKILL)
        case "fail":
            raise WriteError("sample 3: oops", sample=3) from KeyError("original")
        case "stubborn":
            raise WriteError("sample 4: oops", sample=4) from Stubborn(1, 2)
        case "stubborn itself":
            raise Stubborn(1, 2)
        case "exit":
            raise SystemExit(3)
        case "sleep":
            time.sleep(60)
    return task


def test_many_threads_get_their_own_answers() -> None:
    with open_processes(3, lambda n: n * n) as pool, ThreadPoolExecutor(3) as threads:
        assert list(threads.map(pool.call, range(300))) == [n * n for n in range(300)]


def test_exceptions_come_with_their_cause_and_the_traceback_of_the_worker() -> None:
    with open_processes(1, work) as pool:
        with pytest.raises(WriteError, match="sample 3: oops") as caught:
            pool.call("fail")
        assert caught.value.sample == 3
        assert isinstance(caught.value.__cause__, KeyError)
        text = "".join(traceback.format_exception(caught.value))
        assert 'raise WriteError("sample 3: oops", sample=3) from KeyError("original")' in text
        assert pool.call("still alive") == "still alive"


@pytest.mark.parametrize(
    ("task", "error", "message"),
    [
        ("stubborn", WriteError, "sample 4: oops"),
        ("stubborn itself", RuntimeError, "Stubborn: 1 and 2"),
        ("exit", SystemExit, "3"),
    ],
)
def test_what_cannot_travel_is_still_told(task: str, error: type[BaseException], message: str) -> None:
    with open_processes(1, work) as pool:
        with pytest.raises(error, match=message) as caught:
            pool.call(task)
        assert "test_process_pool.py" in "".join(traceback.format_exception(caught.value))
        assert pool.call("still alive") == "still alive"


def test_a_process_that_dies_is_an_error_and_the_others_go_on() -> None:
    with open_processes(2, work) as pool:
        with pytest.raises(WorkerDiedError, match="killed, ran out of memory or crashed"):
            pool.call("die")
        answers = set()
        for _ in range(2):
            try:
                answers.add(pool.call("alive"))
            except WorkerDiedError:
                answers.add("dead")
        assert answers == {"alive", "dead"}


def test_death_in_the_middle_of_an_answer_is_seen() -> None:
    """The hang of concurrent.futures: half an answer in a pipe that others hold open."""
    with open_processes(3, work) as pool:
        for worker in pool._workers:
            worker.pipe.send("big")
            time.sleep(0.1)  # the pipe is full, most of the answer is still to come
            worker.process.kill()
            with pytest.raises((EOFError, OSError)):
                worker.pipe.recv()


def test_killing_frees_the_threads_that_wait() -> None:
    with open_processes(2, work) as pool:
        threading.Timer(0.2, pool.kill).start()
        start_s = time.monotonic()
        with pytest.raises(WorkerDiedError):
            pool.call("sleep")
        assert time.monotonic() - start_s < 10


def test_no_process_is_left() -> None:
    with open_processes(2, work) as pool:
        pids = {pool.call("pid"), pool.call("pid")}
        assert os.getpid() not in pids
        assert len(multiprocessing.active_children()) == 2
    assert not multiprocessing.active_children()


def test_ctrl_c_while_forking_is_put_off_and_not_lost() -> None:
    steps: list[str] = []
    before = signal.signal(signal.SIGINT, signal.default_int_handler)

    def fork_and_be_interrupted() -> None:
        with interrupt_held():
            signal.raise_signal(signal.SIGINT)
            steps.append("forked")
        steps.append("never")

    try:
        with pytest.raises(KeyboardInterrupt):
            fork_and_be_interrupted()
        assert steps == ["forked"]
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
