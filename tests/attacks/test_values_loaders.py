"""Loaders that are left in the middle of an epoch, in every way, and forks there: nothing stays, nothing hangs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from tests.attacks.limited import run_limited
from tests.helpers import image_file, picture

import headrace

if TYPE_CHECKING:
    from pathlib import Path

ABANDON = """
import gc, json, os, sys, threading, time
import headrace
from headrace import ops

path, count = sys.argv[1], int(sys.argv[2])
crop = [ops.RandomResizedCrop(32), ops.RandomHorizontalFlip()]

def explode(values):
    raise KeyError("on purpose")

def leave(number):
    options = {"order": ("sequential", "random", "quasi_random")[number % 3], "workers": 2}
    if number % 4 == 1:
        options["cache"] = "8MB"
    pipelines = {"image": crop, "label": [ops.Apply(explode)] if number % 5 == 4 else []}
    loader = headrace.Loader(path, 4, pipelines=pipelines, **options)
    batches = iter(loader)
    try:
        for _ in range(number % 3):
            next(batches)
    except KeyError:
        pass
    if number % 7 == 3:
        batches.close()
    if number % 11 == 5:
        loader.itself = loader, batches  # a circle

def state():
    gc.collect()
    for _ in range(200):
        if not any(thread.name.startswith("headrace") for thread in threading.enumerate()):
            break
        time.sleep(0.05)
    with open("/proc/self/statm") as file:
        resident = int(file.read().split()[1]) * 4096
    gc.collect()
    return {
        "threads": len(os.listdir("/proc/self/task")),
        "files": len(os.listdir("/proc/self/fd")),
        "mappings": sum(path in line for line in open("/proc/self/maps")),
        "resident": resident,
    }

for number in range(60):
    leave(number)
before = state()
for number in range(count):
    leave(number)
print(json.dumps([before, state()]))
"""


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    path = tmp_path / "x.beton"
    samples = [(image_file(picture(i, 40, 50), "JPEG"), i) for i in range(40)]
    headrace.write(path, samples, fields={"image": headrace.Image(), "label": headrace.Int()}, page_size=2 << 20)
    return path


def abandon(path: Path, count: int) -> tuple[dict[str, int], dict[str, int]]:
    printed, _ = run_limited(ABANDON, str(path), str(count), memory=8 << 30, seconds=900)
    before, after = json.loads(printed)
    return before, after


@pytest.mark.slow
def test_abandoned_loaders_leave_nothing(pictures: Path) -> None:
    before, after = abandon(pictures, 300)
    assert after["threads"] <= before["threads"]
    assert after["files"] <= before["files"]
    assert after["mappings"] <= before["mappings"]
    assert after["resident"] < before["resident"] + (16 << 20)


FORK = """
import os, sys, zlib
import headrace
from headrace import ops

path, cache = sys.argv[1], sys.argv[2]
options = {} if cache == "none" else {"cache": cache}

def new():
    pipelines = {"image": [ops.RandomResizedCrop(32)]}
    return headrace.Loader(path, 4, order="quasi_random", seed=7, pipelines=pipelines, **options)

def sums(batches):
    return [zlib.crc32(batch.image.tobytes()) for batch in batches]

expected = sums(new())
second = new()
second.set_epoch(1)
expected_next = sums(second)
loader = new()
batches = iter(loader)
first = sums([next(batches), next(batches)])
children = []
for number in range(6):
    child = os.fork()
    if child == 0:
        code = 1
        try:
            if number % 2:
                code = 0 if sums(loader) == expected_next else 3  # the same loader, its next epoch
            else:
                code = 0 if sums(new()) == expected else 4
            del batches
        finally:
            os._exit(code)
    children.append(child)
rest = sums(batches)
assert first + rest == expected, (first, rest, expected)
assert [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children] == [0] * 6
print("same")
"""


@pytest.mark.slow
@pytest.mark.parametrize("cache", ["none", "8MB"])
def test_forks_in_the_middle_of_an_epoch(pictures: Path, cache: str) -> None:
    printed, _ = run_limited(FORK, str(pictures), cache, memory=8 << 30, seconds=120)
    assert printed.split() == ["same"]


COLLECT = """
import gc, sys, threading
import headrace
from headrace import ops

held = threading.RLock()

def needs_the_lock(values):
    with held:
        return values

def begin():
    loader = headrace.Loader(sys.argv[1], 1, pipelines={"label": [ops.Apply(needs_the_lock)]}, batches_ahead=1)
    batches = iter(loader)
    next(batches)
    loader.itself = loader, batches  # only the garbage collector lets go of it
    return batches

gc.disable()
batches = begin()
with held:  # the threads need it for the next batches
    del batches
    gc.collect()
print("done")
"""


def test_the_garbage_collector_does_not_wait_for_threads(pictures: Path) -> None:
    printed, _ = run_limited(COLLECT, str(pictures), seconds=30)
    assert printed.split() == ["done"]
