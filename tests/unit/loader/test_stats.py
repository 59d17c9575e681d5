"""How long the stages of a loader take, and what that says."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.unit.loader.tools import CROP, LABELS_ONLY

import headrace as hr
from headrace import Loader, ops
from headrace.loader.job import Job
from headrace.loader.stages import STAGES, BatchClock, stored_bytes
from headrace.loader.stats import LoaderStats, find_binding, needed_seconds, stage_lines
from headrace.types import Ragged

if TYPE_CHECKING:
    from pathlib import Path


def consumed(loader: Loader, *, epochs: int = 1, pause_s: float = 0.0) -> LoaderStats:
    for _ in range(epochs):
        for _ in loader:
            time.sleep(pause_s)
    return loader.stats


def test_each_stage_of_pictures_is_timed(path: Path) -> None:
    pipeline = [*CROP, ops.RandomBrightness(0.5), ops.ToDtype("float32")]
    stages = consumed(Loader(path, 4, pipelines={"image": pipeline, "text": None})).stages
    assert list(stages) == list(STAGES)
    for stage in ("read", "check", "decode", "resize", "ops"):
        assert stages[stage] > 0, stage
    for stage in ("gpu", "python", "collate", "copy"):
        assert stages[stage] == 0, stage


def test_what_is_not_done_takes_no_time(path: Path) -> None:
    stages = consumed(Loader(path, 4, pipelines={"image": CROP}, verify=False)).stages
    assert stages["ops"] == 0
    assert stages["check"] < 0.2 * stages["decode"]  # the finding of bytes alone
    numbers = consumed(Loader(path, 4, pipelines=LABELS_ONLY))
    assert numbers.native_s == 0
    assert numbers.stages["read"] > 0


def test_small_pictures_are_timed_by_some_of_them(tmp_path: Path) -> None:
    """Their sum is still that of all: about what the threads worked."""
    pixels = np.random.default_rng(0).integers(0, 255, (512, 32, 32, 3), np.uint8)
    fields = {"image": hr.Image(mode="raw")}
    hr.write(tmp_path / "x.beton", [(one,) for one in pixels], fields=fields)
    pipeline = [ops.RandomHorizontalFlip(), ops.RandomBrightness(0.5)]
    loader = Loader(tmp_path / "x.beton", 512, workers=1, pipelines={"image": pipeline})
    run = loader._plans[0].chain.first_run()
    assert run is not None
    indices = np.arange(512, dtype=np.int64)
    spans = loader.dataset.image_spans(indices, "image")
    shares = []
    for _ in range(30):
        job = Job(loader.dataset, indices, 0, 0, loader._native, loader._slots)
        start_s = time.perf_counter()
        run.run(spans, job)
        shares.append(sum(job.clock.seconds.values()) / (time.perf_counter() - start_s))
        assert min(job.clock.seconds[stage] for stage in ("check", "resize", "ops")) > 0
    assert 0.2 < max(shares) <= 1.01


def test_python_ops_are_timed_by_name(path: Path) -> None:
    def slow(values: Any) -> Any:
        time.sleep(0.01)
        return values

    pipelines = LABELS_ONLY | {"label": [ops.Apply(slow), ops.Apply(np.negative)]}
    stats = consumed(Loader(path, 4, pipelines=pipelines))
    name, other = sorted(stats.python_ops, key=lambda one: -stats.python_ops[one])
    assert "slow" in name
    assert "negative" in other
    assert stats.python_ops[name] >= 9 * 0.01
    assert stats.stages["python"] == pytest.approx(sum(stats.python_ops.values()))
    assert find_binding(stats) == f"python: {name}"


def test_collating_is_timed(path: Path) -> None:
    stats = consumed(Loader(path, 4, pipelines=LABELS_ONLY | {"text": []}, collate="pad"))
    assert stats.stages["collate"] > 0


def test_stored_bytes_are_counted(path: Path) -> None:
    stats = consumed(Loader(path, 4, pipelines=LABELS_ONLY | {"array": []}, drop_last=False))
    assert stats.bytes_read == 37 * (8 + 24)
    assert stored_bytes(Ragged(np.zeros(5, np.uint8), None)) == 5
    assert stored_bytes([b"ab", "c"]) == 3
    assert stored_bytes(["x", True]) == 0
    assert stored_bytes([]) == 0


def test_a_slow_consumer_makes_the_loader_idle(path: Path) -> None:
    stats = consumed(Loader(path, 4, pipelines=LABELS_ONLY), pause_s=0.03)
    assert stats.idle_s > 0.5 * stats.loop_s
    assert stats.wait_s < 0.3 * stats.loop_s
    assert stats.loop_s >= 9 * 0.03


def test_a_slow_loader_makes_the_consumer_wait(path: Path) -> None:
    pipelines = LABELS_ONLY | {"label": [ops.Apply(lambda values: time.sleep(0.01) or values)]}
    stats = consumed(Loader(path, 4, pipelines=pipelines))
    assert stats.wait_s > 0.8 * stats.loop_s
    assert stats.idle_s < 0.2 * stats.loop_s


def test_the_text_is_a_table(path: Path) -> None:
    text = str(consumed(Loader(path, 4, workers=2, pipelines={"image": CROP})))
    head, columns, *rest = text.splitlines()
    assert head.startswith("9 batches, 36 samples in ")
    assert columns.split() == ["stage", "seconds", "share", "alone,", "samples/s"]
    assert [line.split()[0] for line in rest[:4]] == ["read", "check", "decode", "resize"]
    assert rest[-1].startswith("workers 2, batches ahead 3; ")
    assert "consumer waited" in rest[-2]
    assert str(LoaderStats())  # before anything was done


def test_shares_are_of_the_whole(path: Path) -> None:
    lines = stage_lines(consumed(Loader(path, 4, pipelines={"image": CROP})))
    assert sum(line.share for line in lines) == pytest.approx(1)


def test_stats_since_a_copy(path: Path) -> None:
    loader = Loader(path, 4, pipelines={"image": CROP})
    before = consumed(loader).copy()
    done = consumed(loader).since(before)
    assert (before.batches, done.batches, done.samples, loader.stats.batches) == (9, 9, 36, 18)
    assert 0 < done.stages["decode"] < loader.stats.stages["decode"]
    assert done.jpegs == before.jpegs


# -- what binds -------------------------------------------------------------------------------------------------------


def made_up(wait_s: float = 1.0, python: float = 0.0, **stages: float) -> LoaderStats:
    stats = LoaderStats(batches=1, samples=100, loop_s=1.0, wait_s=wait_s, workers=4)
    stats.stages.update(stages)
    if python:
        stats.stages["python"] = stats.python_ops["Apply(f)"] = python
    return stats


@pytest.mark.parametrize(
    ("stats", "binding"),
    [
        (LoaderStats(), "nothing"),
        (made_up(wait_s=0.01, decode=4.0), "consumer"),
        (made_up(decode=3.0, resize=1.0, read=0.1), "decode"),
        (made_up(decode=1.0, resize=3.0), "resize"),
        (made_up(ops=2.0, decode=1.0), "ops"),
        (made_up(decode=2.0, python=0.9), "python: Apply(f)"),
        (made_up(decode=3.9, python=0.9), "decode"),  # four threads decode, one runs Python
        (made_up(read=1.9, decode=1.0), "read"),
        (made_up(copy=0.9, decode=1.0), "copy"),
        (made_up(gpu=1.9, decode=1.0), "gpu"),
        (made_up(collate=0.9, decode=1.0), "collate"),
    ],
)
def test_what_binds(stats: LoaderStats, binding: str) -> None:
    assert find_binding(stats) == binding


def test_what_goes_on_at_the_same_time_is_not_added() -> None:
    assert needed_seconds(made_up(decode=2.0, resize=1.0, python=0.5, collate=0.1, read=0.2)) == {
        "decode": 0.75,
        "python: Apply(f)": 0.6,
        "read": 0.1,
        "gpu": 0.0,
        "copy": 0.0,
    }


def test_a_clock_adds_up() -> None:
    clock = BatchClock()
    start_s = time.perf_counter()
    clock.add("read", start_s - 1)
    clock.add("read", start_s - 2)
    clock.add_python("f", start_s - 1)
    assert clock.seconds["read"] == pytest.approx(3, abs=0.5)
    assert clock.python_ops["f"] == pytest.approx(1, abs=0.5)
    clock.clear()
    assert (clock.seconds, clock.python_ops, clock.bytes_read) == ({}, {}, 0)
