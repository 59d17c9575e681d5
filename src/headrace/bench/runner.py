"""Runs a suite, and keeps what it found.

The caller's process measures. Files of a suite lie in a hidden folder below ``out``, which is removed whatever happens;
what a killed process has left is removed by the next run. Ctrl-C, and any error of a suite, comes out once the rows so
far are written, and says so in a note.
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
    with _results_folder(out):
        check_room(out, suite.room_bytes(settings), suite=suite.name)
        result = Result(
            suite=suite,
            settings=settings.as_json(),
            command=command,
            environment=environment(),
            source=fingerprint(suite),
        )
        with _work_folder(out, suite.name) as work, _timed_and_kept(result, out):
            result.warm_only = why_warm_only(work)
            for finding in suite.run(replace(settings, work=work, warm_only=result.warm_only), tell):
                result.add(finding)
                found(finding)
            result.is_complete = True
        write_reports(result, out)
    return result


@contextlib.contextmanager
def _results_folder(out: Path) -> Iterator[None]:
    """Make it; where nothing comes into it, it goes again."""
    is_new = not out.exists()
    out.mkdir(parents=True, exist_ok=True)
    try:
        yield
    except BaseException:
        if is_new:
            with contextlib.suppress(OSError):
                os.rmdir(out)
        raise


@contextlib.contextmanager
def _work_folder(out: Path, name: str) -> Iterator[Path]:
    folder = HiddenFolder(out / f"bench-{name}")
    try:
        yield Path(folder.path)
    finally:
        folder.remove()


@contextlib.contextmanager
def _timed_and_kept(result: Result, out: Path) -> Iterator[None]:
    """Tell the result how long it took; if it ends early, write the rows so far and say where they are."""
    start_s = time.monotonic()
    try:
        yield
    except BaseException as error:
        result.seconds = time.monotonic() - start_s
        if isinstance(error, Exception):
            result.note = f"It ended early: {str(error) or type(error).__name__}"
        error.add_note(_keep(result, out))
        raise
    result.seconds = time.monotonic() - start_s


def _keep(result: Result, out: Path) -> str:
    if not result.rows:
        return "nothing was measured yet, and temporary files were removed"
    json_path, _ = write_reports(result, out)
    so_far = f"what was measured so far, {format_count(len(result.rows), 'row')}, is in {json_path}"
    return f"{so_far}, and temporary files were removed"
