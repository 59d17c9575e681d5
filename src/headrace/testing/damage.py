"""Damaged copies of files, and a process of their own for what reads them.

Contract: ``run_cases`` forks once. The child may use so much memory and so much time for each case, and writes a line
for each; the parent reads them and ends a child that is silent for too long. Another child goes on with the same case,
once: a process that was forked beside threads may wait for ever by itself. A child that dies is a failure of the case
that it was at.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import traceback
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from headrace.errors import HeadraceError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

__all__ = ["Damage", "contents_of", "flips", "put_back", "run_cases", "truncations"]

_HOSTILE = (b"\xff\xff\xff\xff\xff\xff\xff\xff", b"\xff\xff\xff\x7f", b"\0\0\0\0\0\0\0\x80", b"\0\0\0\0", b"\xfe")


@dataclass(frozen=True, slots=True)
class Damage:
    """What is done to one file: cut at a byte, or some bytes replaced."""

    file: str
    offset: int
    replaced: bytes | None = None

    def apply(self, data: bytes) -> bytes:
        """The damaged content."""
        if self.replaced is None:
            return data[: self.offset]
        return data[: self.offset] + self.replaced + data[self.offset + len(self.replaced) :]

    def __str__(self) -> str:
        if self.replaced is None:
            return f"{self.file} cut at byte {self.offset}"
        return f"{self.file} with {self.replaced.hex(' ')} at byte {self.offset}"


def truncations(file: str, data: bytes, count: int) -> Iterator[Damage]:
    """Cuts at the beginning, at the end, and at places between."""
    size = len(data)
    places = {0, 1, 7, 8, 64, size // 2, size - 1, size - 2, size - 4, size - 8, size - 22, size - 100}
    places |= set(np.linspace(0, size, max(count - len(places), 2), endpoint=False).astype(int).tolist())
    yield from (Damage(file, place) for place in sorted(places) if 0 <= place < size)


def flips(file: str, data: bytes, count: int, *, seed: int = 0) -> Iterator[Damage]:
    """Single bits that flip, and numbers that become huge, negative or zero; most of them at both ends."""
    rng = np.random.default_rng([seed, len(data)])
    size = len(data)
    for i in range(count if size else 0):
        place = int(rng.integers(0, size) if i % 3 == 0 else rng.integers(0, min(size, 400)))
        place = size - 1 - place if i % 3 == 2 else place
        if i % 2:
            yield Damage(file, place, bytes([data[place] ^ 1 << int(rng.integers(0, 8))]))
        else:
            yield Damage(file, place, _HOSTILE[i // 2 % len(_HOSTILE)][: size - place])


def run_cases(
    cases: Sequence[Damage], work: Callable[[Damage], None], *, timeout_s: float, memory_bytes: int
) -> list[str]:
    """Do the work for each case in another process; gives a line for each that ended in anything but a HeadraceError.

    Args:
        cases: what is done to files.
        work: damages a copy and reads it.
        timeout_s: for one case.
        memory_bytes: what the child may take, besides what this process has already.
    """
    problems: list[str] = []
    start, silent_at = 0, -1
    while start < len(cases):
        found, done, is_silent = _run_some(cases[start:], work, timeout_s, memory_bytes)
        problems += found
        start += done
        if not is_silent:
            break
        if silent_at == start:
            problems.append(f"{cases[start]}: no answer after {timeout_s:.0f} s")
            break
        silent_at = start
    return problems


def _run_some(
    cases: Sequence[Damage], work: Callable[[Damage], None], timeout_s: float, memory_bytes: int
) -> tuple[list[str], int, bool]:
    """The same in one child: problems, how many cases are done, and whether it fell silent at the next."""
    read_end, write_end = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 at a fork of a process that has threads
        child = os.fork()
    if not child:
        os.close(read_end)
        _run_child(cases, work, write_end, memory_bytes)
    os.close(write_end)
    try:
        return _watch(cases, child, read_end, timeout_s)
    finally:
        os.close(read_end)


def _run_child(cases: Sequence[Damage], work: Callable[[Damage], None], out: int, memory_bytes: int) -> None:
    code = 1
    try:
        _limit_memory(memory_bytes)
        for number, case in enumerate(cases):
            os.write(out, json.dumps([number, _outcome(work, case)]).encode() + b"\n")
        code = 0
    finally:
        os._exit(code)


def _outcome(work: Callable[[Damage], None], case: Damage) -> str:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            work(case)
    except HeadraceError:
        return ""
    except BaseException as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        return f"{type(error).__name__}: {str(error)[:200]} ({os.path.basename(where.filename)}, line {where.lineno})"
    return ""


def _limit_memory(memory_bytes: int) -> None:
    import resource

    with open("/proc/self/statm") as file:
        used = int(file.read().split()[0]) * os.sysconf("SC_PAGESIZE")
    with contextlib.suppress(ValueError, OSError):  # it is limited to less already
        resource.setrlimit(resource.RLIMIT_AS, (used + memory_bytes, used + memory_bytes))


def _watch(cases: Sequence[Damage], child: int, read_end: int, timeout_s: float) -> tuple[list[str], int, bool]:
    problems: list[str] = []
    done, waiting, is_silent = 0, b"", False
    while True:
        if not select.select([read_end], [], [], timeout_s)[0]:
            os.kill(child, signal.SIGKILL)
            is_silent = True
            break
        if not (some := os.read(read_end, 1 << 16)):
            break
        *lines, waiting = (waiting + some).split(b"\n")
        for line in lines:
            number, problem = json.loads(line)
            done = number + 1
            problems += [f"{cases[number]}: {problem}"] if problem else []
    _, status = os.waitpid(child, 0)
    if status and not is_silent and not problems and done < len(cases):
        problems.append(f"{cases[done]}: the process died (status {status})")
    return problems, done, is_silent


def contents_of(folder: Path) -> dict[str, bytes]:
    """All files below a folder, by their relative path."""
    return {str(file.relative_to(folder)): file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file()}


def put_back(folder: Path, contents: dict[str, bytes]) -> None:
    """Make the files below a folder what ``contents_of`` said; what has come since, such as an annex, goes."""
    for name in contents_of(folder).keys() - contents.keys():
        (folder / name).unlink()
    for name, data in contents.items():
        (folder / name).write_bytes(data)
