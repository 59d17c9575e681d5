"""Programs for FFCV: on FFCV, unchanged on this package, and written for this package; one worker on one core.

Values are small here, so that the work around a value counts, not the value: pictures of 32 x 32 raw pixels, arrays of
as many bytes, plain numbers. Operations of a user's own that numba compiles are among them.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace.bench.charts import bars_of
from headrace.bench.child import ask_in_turns
from headrace.bench.machine import FFCV_PYTHON, interpreter_of, why_no_interpreter
from headrace.bench.peers.peer import FFCV, OURS, is_there
from headrace.bench.rows import Missing, compared_rows
from headrace.bench.suite import Suite
from headrace.fields import Float, Image, Int, NDArray
from headrace.formats.write import write

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from headrace.bench.rows import Finding, Row
    from headrace.bench.suite import Settings, Tell
    from headrace.charts import Chart

__all__ = ["SUITE"]

_PROGRAM = Path(__file__).parents[1] / "peers" / "ffcv_program.py"
_UNCHANGED = "the program for FFCV on headrace"
_OWN = ("invert", "mirror", "decoder")
_FEW = 1024
_PICTURE_BYTES = 32 * 32 * 3


@dataclass(frozen=True, slots=True)
class _Case:
    section: str
    file: str
    kind: str
    order: str = "random"


_CASES = (
    _Case("pictures in order", "picture", "plain", "sequential"),
    _Case("pictures at random", "picture", "plain"),
    _Case("pictures at random, flip, translate, cutout", "picture", "moved"),
    _Case("arrays in order", "array", "array", "sequential"),
    _Case("arrays at random", "array", "array"),
    _Case("numbers in order", "number", "number", "sequential"),
    _Case("numbers at random", "number", "number"),
    _Case("an epoch of two batches", "few", "moved"),
    _Case("an operation of one's own: pictures inverted", "picture", "invert"),
    _Case("an operation of one's own: pictures mirrored at random", "picture", "mirror"),
    _Case("a decoder of one's own: JPEGs decoded, cropped, resized", "jpeg", "decoder"),
)


def _run(settings: Settings, tell: Tell) -> Iterator[Finding]:
    count, rounds = _count(settings), settings.repeats(quick=3, full=9)
    if reason := why_no_interpreter(FFCV_PYTHON, FFCV):
        yield Missing(FFCV, reason)
    absent = [name for name in ("torch", "numba") if not is_there(name)]
    if absent:
        without = "" if "torch" in absent else "operations of one's own: "
        yield Missing(f"{without}{_UNCHANGED}", f"not installed: {', '.join(absent)}")
    tell("writing the files")
    files = _write(settings.work, count)
    for case in _CASES:
        tell(case.section)
        facts = {"path": str(files[case.file]), "kind": case.kind, "order": case.order}
        commands = _commands(case, facts, absent)
        if len(commands) < 2 and case.kind in _OWN:
            continue
        answers, failures = ask_in_turns(commands, None, rounds, cores=1)
        yield from (Missing(f"{case.section}: {name}", reason) for name, reason in failures.items())
        seconds = {name: [one["seconds"] / one["samples"] for one in found] for name, found in answers.items()}
        yield from compared_rows(case.section, seconds, [FFCV])


def _commands(case: _Case, facts: dict[str, Any], absent: Sequence[str]) -> dict[str, list[str]]:
    told, found = json.dumps(facts), {}
    if case.kind not in _OWN:
        ours = [sys.executable, "-m", "headrace.bench.peers.headrace_program"]
        found[OURS] = [*ours, told]
        if case.kind == "plain":
            found["headrace, every checksum compared"] = [*ours, json.dumps(facts | {"verify": True})]
    if "torch" not in absent and ("numba" not in absent or case.kind not in _OWN):
        launcher = [sys.executable, "-W", "ignore", "-m", "headrace.compat", "run"]
        found[_UNCHANGED] = [*launcher, str(_PROGRAM), told]
    if python := interpreter_of(FFCV_PYTHON):
        found[FFCV] = [python, str(_PROGRAM), told]
    return found


def _write(folder: Path, count: int) -> dict[str, Path]:
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (count, 32, 32, 3), dtype=np.uint8)
    large = rng.integers(0, 256, (min(count, 256), 12, 16, 3), dtype=np.uint8).repeat(8, 1).repeat(8, 2)
    files = {name: folder / f"{name}.beton" for name in ("picture", "array", "number", "few", "jpeg")}
    pictures: dict[str, Any] = {"image": Image(mode="raw"), "label": Int()}
    write(files["picture"], [(p, i % 10) for i, p in enumerate(pixels)], fields=pictures)
    write(files["few"], [(p, i % 10) for i, p in enumerate(pixels[:_FEW])], fields=pictures)
    arrays: dict[str, Any] = {"array": NDArray("uint8", (_PICTURE_BYTES,)), "label": Int()}
    write(files["array"], [(p.reshape(-1), i % 10) for i, p in enumerate(pixels)], fields=arrays)
    numbers: dict[str, Any] = {"label": Int(), "weight": Float()}
    write(files["number"], [(i % 10, i / 7) for i in range(count)], fields=numbers)
    jpegs: dict[str, Any] = {"image": Image(mode="jpg"), "label": Int()}
    write(files["jpeg"], [(large[i % len(large)], i) for i in range(max(1, count // 10))], fields=jpegs)
    return files


def _count(settings: Settings) -> int:
    return settings.count(quick=10_000, full=50_000)


def _charts(rows: Sequence[Row]) -> list[Chart]:
    sections = [case.section for case in _CASES]
    return [chart for section in sections for chart in bars_of(rows, section.capitalize(), [section])]


SUITE = Suite(
    name="ffcv",
    question="How fast does a program for FFCV run on headrace, unchanged and rewritten?",
    run=_run,
    charts=_charts,
    room_bytes=lambda settings: 3 * _count(settings) * _PICTURE_BYTES + (1 << 27),
    rooms=("loader", "read", "order", "ops", "formats/beton", "compat/ffcv"),
    notes=(
        "One worker on one core, batches of 512, warm; pictures and arrays of 3 kB. Each contender has a process of "
        "its own that stays; the first epoch, in which FFCV and numba compile, does not count. Photographs are in the "
        "suites crops and loader.",
        "FFCV has no checksums, so none is compared, unless the name says it.",
    ),
)
