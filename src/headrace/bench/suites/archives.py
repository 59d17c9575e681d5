"""An archive of many small files beside Barecat and LMDB, each pair of measurements together, on one core."""

from __future__ import annotations

import contextlib
import gc
import os
import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace._native import crc32c
from headrace.bench.charts import bars_of
from headrace.bench.child import Child
from headrace.bench.machine import BARECAT_PYTHON, interpreter_of, why_no_interpreter
from headrace.bench.page_cache import forget
from headrace.bench.peers.peer import OURS, is_there
from headrace.bench.rows import Missing, compared_rows
from headrace.bench.suite import Suite
from headrace.bench.turns import one_core, self_timed, timed
from headrace.formats.barecat import Archive
from headrace.formats.barecat.pack import pack_files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from headrace.bench.rows import Cache, Finding, Row
    from headrace.bench.suite import Settings, Tell
    from headrace.charts import Chart

    Work = Callable[[], float]

__all__ = ["SUITE"]

_LEAST, _MOST, _FOLDERS, _BATCH = 4000, 20_000, 1000, 256
_READS, _COLD_READS = 20_000, 5120
_PEER, _LMDB = "Barecat", "LMDB"
_SCRIPT = Path(__file__).parents[1] / "peers" / "barecat_script.py"
_COLD = f"{_BATCH} files in one call, cold"


def _run(settings: Settings, tell: Tell) -> Iterator[Finding]:
    count, rounds = _count(settings), settings.repeats(quick=3, full=5)
    path = str(settings.work / "x.barecat")
    tell("writing the files")
    _make_files(f"{path}.d", count)
    if reason := why_no_interpreter(BARECAT_PYTHON, _PEER):
        yield Missing(_PEER, reason)
    if not is_there("lmdb"):
        yield Missing(_LMDB, "not installed: lmdb")
    if settings.warm_only:
        yield Missing(_COLD, settings.warm_only)
    with one_core(), contextlib.ExitStack() as stack:
        theirs = _Barecat(stack, path, min(count, _READS))
        tell("creating the archive")
        yield from _compare("create from files", {OURS: timed(lambda: _create(path))}, theirs, "create", count, rounds)
        for section, contenders, verb, done in _cases(path, settings, stack):
            tell(section)
            yield from _compare(section, contenders, theirs, verb, done, rounds)


class _Barecat:
    """The other side, where it is there."""

    def __init__(self, stack: contextlib.ExitStack, path: str, reads: int) -> None:
        python = interpreter_of(BARECAT_PYTHON)
        words = [python, str(_SCRIPT), path, str(reads)]
        self._child = stack.enter_context(Child(words)) if python else None
        self._cold = stack.enter_context(Child([*words[:3], str(min(reads, _COLD_READS))])) if python else None

    def contender(self, verb: str) -> dict[str, Work]:
        child = self._cold if verb == "read_cold" else self._child
        return {_PEER: lambda: float(child.ask(verb)["seconds"])} if child is not None and verb else {}


def _cases(
    path: str, settings: Settings, stack: contextlib.ExitStack
) -> Iterator[tuple[str, dict[str, Work], str, int]]:
    """Section, contenders, what Barecat does for it, and how many files that is."""
    with Archive(path) as archive:
        names = sorted(archive)
    everything = len(names)
    random.Random(1).shuffle(names)
    names = names[:_READS]
    if not settings.warm_only:  # first: what is mapped stays in memory
        yield _COLD, {OURS: lambda: _cold_batches(path, names[:_COLD_READS])}, "read_cold", len(names[:_COLD_READS])
    plain, ready = (stack.enter_context(Archive(path, preload=preload)) for preload in (False, True))
    yield "one by one, index in SQLite", {OURS: timed(lambda: _read(plain, names))}, "read", len(names)
    yield "one by one, preloaded", {OURS: timed(lambda: _read(ready, names))}, "read", len(names)
    section = f"{_BATCH} files in one call, index in SQLite"
    yield section, {OURS: timed(lambda: _batches(plain, names))}, "read", len(names)
    contenders = {OURS: timed(lambda: _batches(ready, names))} | _lmdb(settings.work / "lmdb", ready, names, stack)
    yield f"{_BATCH} files in one call, preloaded", contenders, "read", len(names)
    yield "list all files", {OURS: timed(lambda: list(plain.files()))}, "files", everything
    yield "walk", {OURS: timed(lambda: list(plain.walk()))}, "walk", everything
    yield "check all files", {OURS: timed(plain.verify)}, "verify", everything
    yield "open and close", {OURS: timed(lambda: Archive(path).close())}, "open", 0


def _compare(
    section: str, contenders: Mapping[str, Work], theirs: _Barecat, verb: str, files: int, rounds: int
) -> Iterator[Finding]:
    seconds, failures = self_timed({**contenders, **theirs.contender(verb)}, rounds, [_PEER])
    yield from (Missing(f"{section}: {name}", reason) for name, reason in failures.items())
    cache: Cache = "cold" if section == _COLD else "warm"
    unit = "files/s" if files else "s"
    yield from compared_rows(section, seconds, [_PEER, _LMDB], samples=files, unit=unit, cache=cache)


# The files


def _make_files(folder: str, count: int) -> None:
    chance = random.Random(0)
    blob = chance.randbytes(1 << 20)
    for number in range(count):
        directory = os.path.join(folder, f"{number % _FOLDERS:04}")
        if number < _FOLDERS:
            os.makedirs(directory)
        size = chance.randrange(_LEAST, _MOST)
        start = chance.randrange(len(blob) - size)
        Path(directory, f"{number:07}.bin").write_bytes(blob[start : start + size])


def _create(path: str) -> None:
    before = os.getcwd()
    os.chdir(f"{path}.d")
    try:
        with Archive(path, "w") as archive:
            pack_files(archive, ["."])
    finally:
        os.chdir(before)


def _read(archive: Archive, names: Sequence[str]) -> None:
    for name in names:
        archive[name]


def _batches(archive: Archive, names: Sequence[str]) -> None:
    for start in range(0, len(names), _BATCH):
        archive.read_many(names[start : start + _BATCH])


def _cold_batches(path: str, names: Sequence[str]) -> float:
    gc.collect()  # what is still mapped stays in the cache
    with Archive(path) as archive:
        forget(Path(path).parent)
        return timed(lambda: _batches(archive, names))()


def _lmdb(folder: Path, archive: Archive, names: Sequence[str], stack: contextlib.ExitStack) -> dict[str, Work]:
    """The same files, each with its CRC-32C in front, which is compared."""
    if not is_there("lmdb"):
        return {}
    import lmdb

    base = stack.enter_context(lmdb.open(str(folder), map_size=1 << 36))
    with base.begin(write=True) as change:
        for name in names:
            data = archive[name]
            change.put(name.encode(), crc32c(data).to_bytes(4, "little") + data)

    def read() -> None:
        with base.begin(buffers=True) as look:
            for name in names:
                value: Any = look.get(name.encode())
                data = bytes(value[4:])
                if crc32c(data) != int.from_bytes(value[:4], "little"):
                    raise ValueError(name)

    return {_LMDB: timed(read)}


def _count(settings: Settings) -> int:
    return settings.count(quick=2000, full=50_000)


def _charts(rows: Sequence[Row]) -> list[Chart]:
    sections = dict.fromkeys(row.section for row in rows)
    return [chart for section in sections for chart in bars_of(rows, section.capitalize(), [section])]


SUITE = Suite(
    name="archives",
    question="How fast are archives of many small files, beside Barecat?",
    run=_run,
    charts=_charts,
    room_bytes=lambda settings: 4 * _count(settings) * (_MOST + 4096),
    rooms=("formats/barecat", "storage"),
    notes=(
        f"Files of {_LEAST // 1000} to {_MOST // 1000} kB in {_FOLDERS} folders; all contenders on one core. Barecat "
        "and headrace read the same archive, and both compare the CRC-32C of every file that they read. Barecat reads "
        "a file for each call. Preloaded: the index is in memory, which Barecat does not have.",
        "LMDB has the same files, each with its CRC-32C in front, which is compared, too.",
        f"Cold: {_COLD_READS} files of an archive that was opened before its files left the page cache.",
    ),
)
