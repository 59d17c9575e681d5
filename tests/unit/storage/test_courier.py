"""The end of a program that reads from a store, with requests under way, failing, or begun by threads that go on."""

from __future__ import annotations

import _thread
import subprocess
import sys
import textwrap
import threading
import time
from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.range_server import RangeServer, serve_ranges

pytest.importorskip("obstore")

import headrace as hr
from headrace.storage import courier, stored_size

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

START = """
import atexit, sys, threading, time

def come_late():
    try:
        hr.open(url)
    except Exception as error:
        print(type(error).__name__, error)

atexit.register(come_late)  # before that of the courier is registered, so it is called after it
import numpy as np
import headrace as hr
url = sys.argv[1]
options = {"storage_options": {"retry_timeout": 0}}
"""
READ_ON = """
hr.open(url, **options).close()

def read_on():
    while True:
        try:
            with hr.open(url, **options) as dataset:
                dataset[1]
        except Exception:
            pass

for _ in range(3):
    threading.Thread(target=read_on, daemon=True).start()
time.sleep(0.3)
"""
UNDER_WAY = """
dataset = hr.open(url, **options)
announced = dataset.announce(np.arange(len(dataset)), ("data",))
"""
FAILING = """
dataset = hr.open(url, **options)
for batch in hr.Loader(dataset, 4, order="random", workers=1):
    pass
"""
LATE = "ClosedError nothing can be brought from a store while the program ends\n"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RangeServer]:
    size = 400_000
    rows = [(np.full(size, i % 251, np.uint8), i) for i in range(200)]  # more than an object that is read whole
    hr.write(tmp_path / "x.beton", rows, fields={"data": hr.NDArray("uint8", (size,)), "label": hr.Int()})
    with serve_ranges(tmp_path) as server:
        yield server


def _run(server: RangeServer, code: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", textwrap.dedent(START + code), server.url_of("x.beton")]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("code", [READ_ON, UNDER_WAY])
@pytest.mark.parametrize("round", range(4))
def test_a_program_ends_while_requests_are_under_way(server: RangeServer, code: str, round: int) -> None:
    done = _run(server, code)
    assert (done.returncode, done.stdout, done.stderr) == (0, LATE, "")


@pytest.mark.parametrize("round", range(3))
def test_a_program_ends_with_the_error_of_the_store(server: RangeServer, round: int) -> None:
    server.fault = lambda number: 500 if number > 6 and number % 2 else None
    done = _run(server, FAILING)
    assert (done.returncode, done.stdout) == (1, LATE)
    assert "RemoteError" in done.stderr.splitlines()[-1]


def test_threads_that_python_has_not_begun_are_waited_for() -> None:
    _thread.start_new_thread(time.sleep, (0.01,))
    has_begun, ends_s = _thread.allocate_lock(), time.monotonic() + 0.3
    has_begun.acquire()

    def work() -> None:
        has_begun.release()
        time.sleep(max(0.0, ends_s - time.monotonic()))

    _thread.start_new_thread(work, ())
    has_begun.acquire()
    courier._wait_for_strangers()
    assert ends_s <= time.monotonic() < ends_s + courier._BUSY_S


def test_a_courier_that_ends_leaves_requests_of_the_next_alone(
    server: RangeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(courier, "_LAST_S", 0.1)
    server.gate.clear()
    server.fault = lambda number: "stall"
    first = courier.Courier.hire()
    first.call(time.sleep, 0.3)  # its thread is late, as on a busy machine
    leaving = threading.Thread(target=first.dismiss)
    leaving.start()
    sizes: list[int] = []
    asking = threading.Thread(target=lambda: sizes.append(stored_size(server.url_of("x.beton"))), daemon=True)
    asking.start()
    leaving.join(20)
    time.sleep(0.5)
    server.gate.set()
    asking.join(20)
    assert not leaving.is_alive()
    assert sizes
