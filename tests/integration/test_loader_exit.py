"""Programs that end in the middle of an epoch, in every way there is."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
import time
from typing import TYPE_CHECKING

import pytest
from tests.unit.loader.tools import run_script, write_pages

if TYPE_CHECKING:
    from pathlib import Path

START = """
import os, sys, threading, time
from headrace import Loader, ops
path, cache = sys.argv[1:]

def slowly(labels):
    time.sleep(0.02)
    return labels

loader = Loader(path, 2, order="quasi_random", cache=cache, pipelines={"label": [ops.Apply(slowly)]})
"""
CACHES = ["os", "4MB"]


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_pages(tmp_path_factory.mktemp("exit") / "pages.beton")


@pytest.mark.parametrize("cache", CACHES)
@pytest.mark.parametrize(
    "ending",
    [
        "for batch in loader: break",
        "for batch in loader: sys.exit()",
        "batches = iter(loader); next(batches)",
        "batches = iter(loader); next(batches); kept = next(batches); del loader",
        "batches = [iter(loader) for _ in range(3)]; [next(b) for b in batches]; sys.exit(0)",
        "batches = iter(loader); next(batches); threading.main_thread().batches = batches",
    ],
)
def test_a_program_that_leaves_the_loop_ends_in_silence(pages: Path, cache: str, ending: str) -> None:
    result = run_script(START + ending, pages, cache)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


@pytest.mark.parametrize("cache", CACHES)
def test_an_exception_in_the_loop_is_all_there_is_to_see(pages: Path, cache: str) -> None:
    result = run_script(START + "for batch in loader: 1 / 0", pages, cache)
    assert result.returncode == 1
    lines = result.stderr.splitlines()
    assert lines[0].startswith("Traceback")
    assert lines[-1] == "ZeroDivisionError: division by zero"
    assert sum(line.startswith("Traceback") for line in lines) == 1
    assert "headrace" not in result.stderr


def test_a_loader_in_a_thread_that_is_no_daemon_lets_the_program_end(pages: Path) -> None:
    code = """
        def work():
            for batch in loader:
                break
        thread = threading.Thread(target=work)
        thread.start()
        """
    result = run_script(START + textwrap.dedent(code), pages, "4MB")
    assert (result.returncode, result.stderr) == (0, "")


def test_a_child_that_is_forked_in_the_loop_can_use_the_loader(pages: Path) -> None:
    code = """
        expected = [batch.label.tolist() for batch in loader]
        loader.set_epoch(0)
        for step, batch in enumerate(loader):
            if step == 2:
                child = os.fork()
                if child == 0:
                    mine = Loader(path, 2, order="quasi_random", cache=cache)
                    same = [b.label.tolist() for b in mine] == expected
                    os._exit(0 if same and loader[3].label.tolist() == expected[3] else 1)
                assert os.waitpid(child, 0)[1] == 0
            assert batch.label.tolist() == expected[step]
        """
    for cache in CACHES:
        result = run_script(START + textwrap.dedent(code), pages, cache)
        assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.parametrize("cache", CACHES)
@pytest.mark.parametrize(
    "loop",
    [
        "for batch in loader: pass",  # waits for batches
        "for batch in loader: time.sleep(0.05)",  # batches wait for it
        "for batch in loader: sum(range(2_000_000))",  # busy
    ],
)
def test_ctrl_c_ends_the_loop_at_once(pages: Path, cache: str, loop: str) -> None:
    code = START + f"print('ready', flush=True)\nwhile True:\n    {loop}\n"
    command = [sys.executable, "-c", code, str(pages), cache]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        start_s = time.monotonic()
        try:
            _, errors = process.communicate(timeout=10)
        finally:
            process.kill()
        assert time.monotonic() - start_s < 2
    assert process.returncode == -signal.SIGINT
    assert errors.splitlines()[-1] == "KeyboardInterrupt"
    assert sum(line.startswith("Traceback") for line in errors.splitlines()) == 1
