"""``Loader(trace=...)``: a file that Chrome and Perfetto show."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from tests.unit.loader.tools import CROP, LABELS_ONLY

from headrace import Loader, ops
from headrace.loader.trace import Trace

if TYPE_CHECKING:
    from pathlib import Path


def identity(values: Any) -> Any:
    return values


def test_every_batch_and_stage_is_in_it(path: Path, tmp_path: Path) -> None:
    file = tmp_path / "trace.json"
    pipelines = {"image": CROP, "label": [ops.Apply(identity)]}
    loader = Loader(path, 4, pipelines=pipelines, trace=file)
    assert not file.exists()
    for _ in loader:
        pass
    whole = json.loads(file.read_text())
    spans = [event for event in whole["traceEvents"] if event["ph"] == "X"]
    names = {event["name"] for event in spans}
    assert {"read", "native call", "wait"} < names
    assert any("identity" in name for name in names)
    assert {event["args"]["batch"] for event in spans} == set(range(9))
    assert all(event["dur"] >= 0 and event["ts"] > 0 for event in spans)
    native = next(event for event in spans if event["name"] == "native call")
    assert native["args"]["decode_ms"] > 0
    threads = {event["args"]["name"] for event in whole["traceEvents"] if event["ph"] == "M"}
    assert {"headrace-loader", "MainThread"} <= threads
    assert whole["otherData"]["spans_left_out"] == 0


def test_a_loop_that_is_left_early_has_one_too(path: Path, tmp_path: Path) -> None:
    for _ in Loader(path, 4, pipelines=LABELS_ONLY, trace=str(tmp_path / "trace.json")):
        break
    assert json.loads((tmp_path / "trace.json").read_text())["traceEvents"]


def test_the_spans_are_bounded(tmp_path: Path) -> None:
    trace = Trace(tmp_path / "trace.json", most=10)
    for step in range(25):
        trace.note("read", step, step + 0.5, step)
    trace.write()
    whole = json.loads((tmp_path / "trace.json").read_text())
    kept = [event["args"]["batch"] for event in whole["traceEvents"] if event["ph"] == "X"]
    assert kept == list(range(15, 25))
    assert whole["otherData"]["spans_left_out"] == 15
    assert [event["dur"] for event in whole["traceEvents"] if event["ph"] == "X"] == [5e5] * 10


def test_no_trace_without_asking(path: Path, tmp_path: Path) -> None:
    loader = Loader(path, 4, pipelines=LABELS_ONLY)
    list(loader)
    assert loader._trace is None


def test_where_it_cannot_be_written(path: Path, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"does not exist, so trace\.json cannot be written there"):
        Loader(path, 4, pipelines=LABELS_ONLY, trace=tmp_path / "no" / "trace.json")
    with pytest.raises(TypeError, match="trace must be the path of a file to write, got 3"):
        Loader(path, 4, trace=3)  # type: ignore[arg-type]
