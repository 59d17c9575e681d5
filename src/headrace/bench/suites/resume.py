"""Going on in the middle of an epoch: how long until the first batch, and are the batches the same?"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace.bench.pictures import photograph_bytes, photograph_count, typical_bytes
from headrace.bench.rows import exact_row, median_row
from headrace.bench.suite import Suite
from headrace.charts import Point, PointChart
from headrace.fields import Image, Int
from headrace.formats.write import write
from headrace.loader import Loader
from headrace.ops import RandomResizedCrop, ToLayout

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from headrace.bench.rows import Finding, Row
    from headrace.bench.suite import Settings, Tell
    from headrace.charts import Chart

__all__ = ["SUITE"]

_BATCH, _SIDE = 32, 224
_SHARES = (0.1, 0.5, 0.9)
_ORDERS = ("random", "quasi_random")


def _loader(path: str, order: Any) -> Loader:
    pipelines: dict[str, Any] = {"image": [RandomResizedCrop(_SIDE), ToLayout("NCHW")]}
    return Loader(path, _BATCH, order=order, seed=1, pipelines=pipelines)


def _count(settings: Settings) -> int:
    return max(photograph_count(settings, quick=640, full=8000), 4 * _BATCH)


def _run(settings: Settings, tell: Tell) -> Iterator[Finding]:
    count = _count(settings)
    path = settings.work / "x.beton"
    tell("writing photographs")
    samples = ((data, number) for number, data in enumerate(photograph_bytes(settings.images, count)))
    write(path, samples, fields={"image": Image(), "label": Int()})
    rounds = settings.repeats(quick=3, full=7)
    for order in _ORDERS:
        tell(f"resuming, {order}")
        yield from _measure(str(path), order, rounds)


def _measure(path: str, order: str, rounds: int) -> Iterator[Finding]:
    steps = [max(1, int(share * len(_loader(path, order)))) for share in _SHARES]
    state_bytes, resumed, replayed, same = 0, [], [], []
    for step in steps:
        state, expected = _stopped(path, order, step)
        state_bytes = len(json.dumps(state))
        pairs = [(_resume(path, order, state, expected), _replay(path, order, step)) for _ in range(rounds)]
        resumed.append([seconds for (seconds, _), _ in pairs])
        same.append(all(is_same for (_, is_same), _ in pairs))
        replayed.append([seconds for _, seconds in pairs])
    for what, found in (("state", resumed), ("skipping batches", replayed)):
        for step, share, seconds in zip(steps, _SHARES, found, strict=True):
            name = f"{order}, {what}, {share:.0%} of the epoch"
            yield median_row("first batch after a restart", name, seconds, unit="s", better="lower", step=step)
    yield exact_row("size of the state", order, state_bytes, unit="bytes", better="lower")
    section = "batches after a restart that are the same to the bit"
    yield exact_row(section, order, float(np.mean(same)), unit="of all", better="higher")


def _stopped(path: str, order: str, step: int) -> tuple[dict[str, Any], Any]:
    """The state after some batches, and the batch that comes next."""
    batches = iter(loader := _loader(path, order))
    for _ in range(step):
        next(batches)
    state: dict[str, Any] = loader.state_dict()
    return state, np.array(next(batches).image)


def _resume(path: str, order: str, state: dict[str, Any], expected: Any) -> tuple[float, bool]:
    start_s = time.perf_counter()
    loader = _loader(path, order)
    loader.load_state_dict(state)
    batch = next(iter(loader))
    return time.perf_counter() - start_s, bool(np.array_equal(batch.image, expected))


def _replay(path: str, order: str, step: int) -> float:
    """What a loader without a state has to do: load all batches again, and throw them away."""
    start_s = time.perf_counter()
    batches = iter(_loader(path, order))
    for _ in range(step + 1):
        next(batches)
    return time.perf_counter() - start_s


def _charts(rows: Sequence[Row]) -> list[Chart]:
    points = [
        Point(row.facts["step"], row.value, "", ", ".join(row.name.split(", ")[:2]))
        for row in rows
        if row.section.startswith("first batch")
    ]
    if not points:
        return []
    return [
        PointChart(
            title="Seconds to the first batch after a restart",
            x_label="batches of the epoch that are over",
            y_label="seconds",
            points=points,
            is_joined=True,
            is_log_y=True,
        )
    ]


SUITE = Suite(
    name="resume",
    question="How long does it take to go on in the middle of an epoch, and is it exact?",
    run=_run,
    charts=_charts,
    room_bytes=lambda settings: 2 * typical_bytes(settings.images, _count(settings)),
    rooms=("loader", "order"),
    notes=(
        "A loader of random crops is stopped after some batches. State: a new loader gets the state and gives one "
        "batch. Skipping batches: a new loader gives all batches again, as one without a state has to. Both are timed "
        "from opening the file on, in this process, warm, and take turns.",
    ),
)
