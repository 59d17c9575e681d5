"""Disks that are really full: a tmpfs, filled up to a few pages, on which every command of ``scenarios`` runs."""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
from typing import TYPE_CHECKING

from tests.faults.campaign import Bench, Outcome

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.faults.scenarios import Scenario

__all__ = ["mounted", "on_full_disks", "why_no_mounts"]

PAGE_BYTES = 4096
_SIZE = "40m"
_FILLER = "filler"


def why_no_mounts() -> str | None:
    """Why nothing can be mounted here, or None if it can."""
    if os.geteuid() != 0:
        return "only root can mount"
    try:
        with tempfile.TemporaryDirectory() as folder, mounted(folder, "-t", "tmpfs", "-o", "size=64k", "tmpfs"):
            return None
    except (OSError, subprocess.CalledProcessError) as error:
        return f"nothing can be mounted here: {error}"


@contextlib.contextmanager
def mounted(folder: str | os.PathLike[str], *options: str) -> Iterator[None]:
    """Something mounted at a folder, until the end of the block."""
    subprocess.run(["mount", *options, os.fspath(folder)], check=True, capture_output=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", os.fspath(folder)], check=True)


def on_full_disks(scenario: Scenario, place: Path, pantry: Path, *, step: int = 1) -> Iterator[Outcome]:
    """Run a command with no page free, then with more and more, until it succeeds.

    Args:
        scenario: the command.
        place: for the disk.
        pantry: filled.
        step: how many pages more at first; later an eighth of those there are.
    """
    disk = place / "disk"
    disk.mkdir(exist_ok=True)
    elsewhere = place / "elsewhere"
    elsewhere.mkdir(exist_ok=True)
    reference = Bench(elsewhere, pantry).reference(scenario)
    with mounted(disk, "-t", "tmpfs", "-o", f"size={_SIZE}", "tmpfs"):
        bench = Bench(disk, pantry, printed=elsewhere / "printed")
        pages = 0
        while True:
            bench.lay_out(scenario)
            _fill(disk, pages * PAGE_BYTES)
            status, printed = bench.run_plainly(scenario)
            (disk / _FILLER).unlink()
            outcome = bench.judge_elsewhere(scenario, reference, status, printed)
            outcome.number, outcome.call = pages, f"{pages} pages free"
            yield outcome
            if status == 0:
                return
            pages += max(step, pages // 8)


def _fill(disk: Path, free_bytes: int) -> None:
    facts = os.statvfs(disk)
    have = facts.f_bavail * facts.f_frsize
    with open(disk / _FILLER, "wb") as file:
        os.posix_fallocate(file.fileno(), 0, max(1, have - free_bytes))
