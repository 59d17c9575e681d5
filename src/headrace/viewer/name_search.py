"""Samples whose name has a text in it, or matches a regular expression, however many there are."""

from __future__ import annotations

import select
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from headrace.annex import Names
from headrace.progress import format_count

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    from headrace.types import IndexArray

__all__ = ["find_matches", "find_text", "name_block"]

_BLOCK = 1 << 16
_MATCHED = 1 << 14
_MAX_PATTERN = 500
_PATIENCE_S = 3.0  # for one block; names are short, and a pattern that can be used takes milliseconds
_WORKER = Path(__file__).with_name("name_worker.py")
_MOST_NAME_BYTES = 4096  # of a name, so that a block is bounded


def name_block(names: Sequence[str], start: int, stop: int) -> tuple[bytes, IndexArray]:
    """UTF-8 of names, one after the other, and where each ends."""
    if isinstance(names, Names):
        return names.block(start, stop)
    parts = [name.encode("utf-8", "surrogateescape") for name in names[start:stop]]
    return b"".join(parts), np.cumsum(np.fromiter(map(len, parts), np.int64, len(parts)))


def find_text(names: Sequence[str], text: str, check: Callable[[int, int], object]) -> npt.NDArray[np.bool_]:
    """Which names have a text in them; A to Z and a to z are the same.

    Args:
        names: of all samples.
        text: what is looked for.
        check: called with how many are done, and how many there are.
    """
    wanted, found = text.encode("utf-8", "surrogateescape").lower(), np.zeros(len(names), np.bool_)
    for start in range(0, len(names), _BLOCK):
        check(start, len(names))
        block, ends = name_block(names, start, min(start + _BLOCK, len(names)))
        _mark(block.lower(), ends, wanted, found[start : start + _BLOCK])
    return found


def _mark(block: bytes, ends: IndexArray, wanted: bytes, found: npt.NDArray[np.bool_]) -> None:
    """A text that is found across the end of a name is none."""
    hits, place = [], block.find(wanted)
    while place >= 0:
        hits.append(place)
        place = block.find(wanted, place + 1)
    places = np.array(hits, np.int64)
    owners = np.searchsorted(ends, places, "right")
    inside = owners < len(ends)
    places, owners = places[inside], owners[inside]
    found[owners[places + len(wanted) <= ends[owners]]] = True


def find_matches(names: Sequence[str], pattern: str, check: Callable[[int, int], object]) -> npt.NDArray[np.bool_]:
    """Which names match a regular expression of Python somewhere; case does not count.

    Raises:
        ValueError: it is none, is too long, or takes too long.
    """
    if len(pattern) > _MAX_PATTERN:
        raise ValueError(f"a regular expression may have {_MAX_PATTERN} characters here, this one has {len(pattern)}")
    command = [sys.executable, "-I", "-S", str(_WORKER)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as worker:
        try:
            return _matched(worker, names, pattern, check)
        finally:
            worker.kill()


def _matched(
    worker: subprocess.Popen[bytes], names: Sequence[str], pattern: str, check: Callable[[int, int], object]
) -> npt.NDArray[np.bool_]:
    data = pattern.encode("utf-8", "surrogateescape")
    problem = _answer(worker, struct.pack("<I", len(data)) + data, None)
    if problem != b"\n":
        raise ValueError(f"the regular expression cannot be used: {problem.decode('utf-8', 'replace').strip()}")
    found = np.zeros(len(names), np.bool_)
    for start in range(0, len(names), _MATCHED):
        check(start, len(names))
        stop = min(start + _MATCHED, len(names))
        block, ends = name_block(names, start, stop)
        block, ends = _shortened(block, ends)
        question = struct.pack("<II", len(ends), len(block)) + ends.astype("<u4").tobytes() + block
        found[start:stop] = np.frombuffer(_answer(worker, question, stop - start), np.bool_)
    return found


def _shortened(block: bytes, ends: IndexArray) -> tuple[bytes, IndexArray]:
    lengths = np.diff(ends, prepend=0)
    if int(lengths.max(initial=0)) <= _MOST_NAME_BYTES:
        return block, ends
    starts = ends - lengths
    kept = np.minimum(lengths, _MOST_NAME_BYTES)
    parts = [block[a : a + n] for a, n in zip(starts.tolist(), kept.tolist(), strict=True)]
    return b"".join(parts), np.cumsum(kept)


def _answer(worker: subprocess.Popen[bytes], question: bytes, size: int | None) -> bytes:
    """What the worker says to a question: so many bytes, or a line; ValueError when it takes too long."""
    assert worker.stdin is not None
    assert worker.stdout is not None
    try:
        worker.stdin.write(question)
        worker.stdin.flush()
    except BrokenPipeError:
        raise ValueError("the regular expression cannot be used: it needs too much memory") from None
    answer, end = b"", time.monotonic() + _PATIENCE_S
    while (len(answer) < size) if size is not None else not answer.endswith(b"\n"):
        ready, _, _ = select.select([worker.stdout], [], [], max(0.0, end - time.monotonic()))
        if not ready:
            waited = format_count(int(_PATIENCE_S), "second")
            raise ValueError(f"the regular expression takes too long: it was given up after {waited}. Make it simpler")
        part = worker.stdout.read1(1 << 16)  # type: ignore[attr-defined]  # a buffered reader
        if not part:
            raise ValueError("the regular expression cannot be used: it needs too much memory")
        answer += part
    return answer
