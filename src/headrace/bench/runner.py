"""Runs a suite, and keeps what it found.

The caller's process measures. Files of a suite lie in a hidden folder below ``out``, which is removed whatever happens;
what a killed process has left is removed by the next run. Ctrl-C comes out as KeyboardInterrupt once the rows so far
are written, and says so in a note.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.bench.disk import check_room
from headrace.bench.machine import environment
from headrace.bench.page_cache import why_warm_only
from headrace.bench.report import Result, write_reports
from headrace.bench.rows import Row
from headrace.bench.source import fingerprint
from headrace.errors import HeadraceError
from headrace.progress import format_count
from headrace.storage import HiddenFolder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from headrace.bench.rows import Finding
    from headrace.bench.suite import Settings, Suite, Tell

__all__ = ["SUITES", "NothingToMeasureError", "find_suite", "run_suite"]

SUITES = (
    *("formats", "loader", "crops", "codecs", "shuffle", "reads", "libraries", "convert", "archives", "stores"),
    *("ops", "ffcv", "scaling", "memory", "resume", "gpu"),
)


class NothingToMeasureError(HeadraceError, RuntimeError):
    """What a suite needs is not here; the message says what it is."""


def find_suite(name: str) -> Suite:
    """The suite of a name; ValueError for another."""
    if name not in SUITES:
        raise ValueError(f"there is no suite {name!r}; there are {', '.join(SUITES)}")
    suite: Suite = importlib.import_module(f"headrace.bench.suites.{name}").SUITE
    return suite


def run_suite(
    suite: Suite,
    settings: Settings,
    *,
    command: str,
    tell: Tell = lambda what: None,
    found: Callable[[Finding], object] = lambda finding: None,
) -> Result:
    """Measure, and write a result as JSON and as a page into ``settings.work``.

    Args:
        suite: what to measure.
        settings: ``work`` is where results go; it is made if it is not there.
        command: what made the result, as it would be typed.
        tell: is called with what is being done.
        found: is called with each finding.

    Raises:
        OSError: there is too little room; nothing was written then.
        NothingToMeasureError: what the suite is about is not here, such as a GPU.
    """
    if reason := suite.missing():
        raise NothingToMeasureError(f"the suite {suite.name} measures nothing here: {reason}")
    out = settings.work
    is_new = not out.exists()
    out.mkdir(parents=True, exist_ok=True)
    try:
        check_room(out, suite.room_bytes(settings), suite=suite.name)
    except BaseException:
        if is_new:
            with contextlib.suppress(OSError):
                os.rmdir(out)
        raise
    result = Result(
        suite=suite,
        settings=settings.as_json(),
        command=command,
        environment=environment(),
        source=fingerprint(suite),
    )
    with _work_folder(out, suite.name) as work, _kept_when_interrupted(result, out):
        result.warm_only = why_warm_only(work)
        start_s = time.monotonic()
        for finding in suite.run(replace(settings, work=work, warm_only=result.warm_only), tell):
            result.add(finding)
            found(finding)
        result.is_complete, result.seconds = True, time.monotonic() - start_s
    write_reports(result, out)
    return result


@contextlib.contextmanager
def _work_folder(out: Path, name: str) -> Iterator[Path]:
    folder = HiddenFolder(out / f"bench-{name}")
    try:
        yield Path(folder.path)
    finally:
        folder.remove()


@contextlib.contextmanager
def _kept_when_interrupted(result: Result, out: Path) -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt as interrupt:
        rows = sum(isinstance(finding, Row) for finding in result.findings)
        if rows:
            json_path, _ = write_reports(result, out)
            so_far = f"what was measured so far, {format_count(rows, 'row')}, is in {json_path}"
            interrupt.add_note(f"{so_far}, and temporary files were removed")
        else:
            interrupt.add_note("nothing was measured yet, and temporary files were removed")
        raise
