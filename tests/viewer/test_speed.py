"""What the pages cost the server, in CPU time: generous limits, which a busy machine does not reach."""

from __future__ import annotations

import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest
from tests.viewer.large import write_large
from tests.viewer.scenes import write_scenes

import headrace as hr
from headrace.viewer.grid import find_rows, pack_thumbnails
from headrace.viewer.shelf import Shelf

if TYPE_CHECKING:
    from pathlib import Path

_PROGRAM = """
import sys, threading, time, headrace as hr
from headrace.viewer import grid, overview
from headrace.viewer.shelf import Shelf

peak_kib = 0

def watch():
    global peak_kib
    while True:
        with open("/proc/self/status") as file:
            peak_kib = max(peak_kib, *(int(line.split()[1]) for line in file if line.startswith("RssAnon")))
        time.sleep(0.005)

threading.Thread(target=watch, daemon=True).start()

def ready(page, query):
    while page(shelf, query).get("state") == "working":
        pass

begin = time.process_time()
shelf = Shelf.of([hr.open(sys.argv[1])])
for page in (overview.tell, overview.draw_histograms, overview.count_classes):
    ready(page, {"d": "0"})
cpu_s = time.process_time() - begin
for query in ({"class": "7"}, {"sort": "-class"}, {"bytes": "1:", "sort": "width"}):
    ready(grid.find_rows, query)
shelf.close()
print(cpu_s, peak_kib / 1024)
"""


@pytest.mark.slow
def test_ten_million_samples_take_less_than_a_second_and_300_mb(tmp_path: Path) -> None:
    write_large(tmp_path / "many.beton", 10_000_000)
    command = [sys.executable, "-c", _PROGRAM, str(tmp_path / "many.beton")]
    run = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    cpu_s, peak_mib = map(float, run.stdout.split())
    assert cpu_s < 1.0
    assert peak_mib < 300  # of its own; pages of the mapped file are the system's cache, which takes them back


def test_a_screen_of_thumbnails_takes_less_than_150_ms(tmp_path: Path) -> None:
    write_scenes(tmp_path / "x.beton", 60)
    with hr.open(tmp_path / "x.beton") as dataset:
        shelf = Shelf.of([dataset])
        costs = []
        for _ in range(3):
            begin = time.process_time()
            find_rows(shelf, {"count": "120"})
            for first in range(0, 60, 12):
                numbers = ",".join(map(str, range(first, first + 12)))
                assert len(pack_thumbnails(shelf[0], {"i": numbers, "side": "192"})) > 12_000
            costs.append(time.process_time() - begin)
        assert min(costs) < 0.15
        shelf.close()
