"""A reshard that is killed, wherever it is: the next writer, or repair, leaves no shard that nobody refers to."""

from __future__ import annotations

import os
import shutil
import signal
from typing import TYPE_CHECKING

import pytest
from tests.faults.supervisor import no_syncs, supervised, why_not

import headrace as hr
from headrace.formats.barecat import Archive
from headrace.formats.barecat.edit.maintenance import reshard
from headrace.formats.barecat.names import shard_numbers

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.skipif(why_not() is not None, reason=str(why_not())), pytest.mark.slow]

FILES = {f"d{i % 2}/{i}": bytes([i]) * 700 for i in range(9)}


def leave(folder: Path, size: int, number: int) -> bool:
    """Reshard the archive in a process that is killed at a call; False when it had no call of that number."""

    def work() -> int:
        with Archive(folder / "x.barecat", "r+") as archive:
            reshard(archive, size)
        return 0

    run = supervised(work, lambda request: "kill" if request.number == number else None, folder=str(folder))
    return run.status == -signal.SIGKILL


def look(path: Path) -> int:
    """The archive is whole and has no more shards than it needs; gives how many."""
    with Archive(path) as archive:
        assert archive.verify(workers=1).ok
        assert dict(archive.items()) == FILES
        assert archive.index.config("reshard_from") is None
        used = {info.shard for info in archive.files()}
    numbers = shard_numbers(str(path))
    assert set(numbers) == used
    assert numbers == list(range(len(numbers)))
    assert sorted(os.listdir(path.parent)) == ["x.barecat", *(f"x.barecat-shard-{n:05}" for n in numbers)]
    return len(numbers)


@pytest.mark.parametrize(("by", "size"), [("writer", 1500), ("appender", 100_000), ("repair", 1500)])
def test_nothing_is_left(tmp_path: Path, by: str, size: int) -> None:
    made = tmp_path / "made"
    made.mkdir()
    with Archive(made / "x.barecat", "x", shard_size=2500) as archive:
        archive.update(FILES)
    counts, finished, number = set(), 0, 1
    while True:
        folder = tmp_path / "work"
        shutil.copytree(made, folder)
        is_killed = leave(folder, size, number)

        def tidy(path: Path = folder / "x.barecat") -> int:
            no_syncs()
            if by == "repair":
                report = hr.repair(path)
                return int(any("reshard" in line for line in report.done))
            with Archive(path, "r+", append_only=by == "appender"):
                pass
            return 0

        child = os.fork()
        if child == 0:
            code = 70
            try:
                code = tidy()
            finally:
                os._exit(code)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert status in (0, 1), number
        finished += status
        counts.add(look(folder / "x.barecat"))
        shutil.rmtree(folder)
        if not is_killed:
            break
        number += 1
    assert number > 30
    assert counts == {3, 5 if size == 1500 else 1}
    assert (finished > 10) == (by == "repair")
