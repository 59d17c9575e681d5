"""The same samples in every format, and contenders that take turns: what the suites about formats share."""

from __future__ import annotations

import contextlib
import os
import statistics
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import headrace as hr
from benchmarks.harness import ratio, row
from headrace.errors import MissingExtraError
from headrace.formats.open import all_formats

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from headrace.formats.contract import Format
    from headrace.types import Field

    Contender = Callable[[Any], object]

__all__ = ["FormatFile", "forget", "left_out", "make_files", "ratios", "size_on_disk", "take_turns"]


@dataclass(frozen=True, kw_only=True)
class FormatFile:
    """A dataset of one format that holds the samples of a suite."""

    format: Format
    path: Path
    options: Mapping[str, Any]

    @property
    def name(self) -> str:
        """The format's."""
        return self.format.name

    def open(self) -> Any:
        """Open it as what it holds."""
        return hr.open(self.path, **self.options)

    def field(self, kinds: Sequence[str]) -> str:
        """The field that the samples went into: it may have another name in this format."""
        with self.open() as dataset:
            return next(name for kind in kinds for name, f in dataset.schema.items() if f.kind == kind)


def make_files(
    folder: Path,
    samples: Sequence[Any],
    choices: Iterable[Mapping[str, Field]],
    *,
    decode: str | None = None,
    only: Sequence[str] = (),
    indexed: bool = True,
    **options: Any,
) -> tuple[list[FormatFile], dict[str, str]]:
    """Write samples in every format that takes them, and say why others do not.

    Args:
        folder: where.
        samples: tuples of values.
        choices: fields, the best first: a format gets the first that it takes.
        decode: for formats that do not say themselves what their bytes are.
        only: names of formats; by default all.
        indexed: each gets its annex, where the format has one.
        **options: for the writers that take them.
    """
    made, reasons = [], {}
    for known in all_formats():
        if known.create is None or (only and known.name not in only):
            continue
        try:
            made.append(_make_file(folder, known, samples, list(choices), decode, options))
        except (ValueError, MissingExtraError) as error:
            reasons[known.name] = str(error).replace(f"{folder}{os.sep}", "")
            continue
        if indexed and known.index is not None:
            with contextlib.suppress(ValueError):  # tables without JPEGs have nothing to index
                hr.index(made[-1].path)
    os.sync()
    return made, reasons


def _make_file(
    folder: Path,
    known: Format,
    samples: Sequence[Any],
    choices: list[Mapping[str, Field]],
    decode: str | None,
    options: Mapping[str, Any],
) -> FormatFile:
    home = folder / known.name
    home.mkdir()
    path = home / f"x{known.suffixes[0]}"
    taken = {name: value for name, value in options.items() if name in known.writer_options}
    for fields in choices:
        width = len(fields)
        if known.max_fields is not None and width > known.max_fields:
            continue
        try:
            hr.write(path, [sample[:width] for sample in samples], fields=fields, **taken)
        except ValueError:
            if fields is choices[-1]:
                raise
            continue
        return FormatFile(format=known, path=path, options=_decode_option(path, known, fields, decode))
    raise ValueError(f"a {known.name} holds {known.max_fields} field of a sample")


def _decode_option(path: Path, known: Format, fields: Mapping[str, Field], decode: str | None) -> dict[str, Any]:
    with hr.open(path) as dataset:
        is_known = next(iter(fields.values())).kind in {field.kind for field in dataset.schema.values()}
    return {} if is_known or decode not in known.decodes else {"decode": decode}


def left_out(reasons: Mapping[str, str]) -> list[dict[str, Any]]:
    """A line for each format that does not hold the samples."""
    return [{"what": f"{name}: left out", "text": reason} for name, reason in reasons.items()]


def size_on_disk(path: Path) -> int:
    """Bytes of a dataset with all that lies beside it in its folder."""
    files = (os.path.join(at, name) for at, _, names in os.walk(path.parent) for name in names)
    return sum(map(os.path.getsize, files))


def forget(folder: Path) -> None:
    """Take the files of a folder out of the page cache, as far as nobody has them mapped."""
    for at, _, names in os.walk(folder):
        for name in names:
            fd = os.open(os.path.join(at, name), os.O_RDONLY)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(fd)


def take_turns(
    contenders: Mapping[str, Contender],
    work: Callable[[int], Sequence[Any]],
    rounds: int,
    *,
    before: Callable[[str], object] = lambda name: None,
    longest_s: float = 0.4,
) -> dict[str, list[float]]:
    """Seconds of one item of work for each contender and round; in a round all do the same, one after the other.

    A contender that would take longer than ``longest_s`` does the first items alone.
    """
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for turn in range(1 + rounds):  # the first does not count
        items = work(turn)
        for name, do in contenders.items():
            before(name)
            start_s, done = time.perf_counter(), 0
            for item in items:
                do(item)
                done += 1
                if time.perf_counter() - start_s > longest_s:
                    break
            if turn:
                seconds[name].append((time.perf_counter() - start_s) / done)
    return seconds


def ratios(
    what: str, seconds: Mapping[str, list[float]], base: str, *, samples: int, size_bytes: int = 0, **facts: Any
) -> list[dict[str, Any]]:
    """A row for each contender, and one that compares it with ``base``, of paired rounds."""
    rows = [
        row(f"{what}: {name}", taken, samples=samples, size_bytes=size_bytes) | facts for name, taken in seconds.items()
    ]
    for name, taken in seconds.items():
        if name != base and base in seconds:
            # The machine's mood is the same for both of a round.
            pairs = sorted(a / b for a, b in zip(seconds[base], taken, strict=True))
            line = ratio(f"{what}: {name}", statistics.median(pairs), f"the rate of {base}")
            rows.append(line | {"quartiles": [pairs[len(pairs) // 4], pairs[-1 - len(pairs) // 4]]} | facts)
    return rows
