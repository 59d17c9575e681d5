"""Writing whole datasets with FFRecord's call."""

from __future__ import annotations

import os
import tempfile
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headrace.compat.ffrecord.fileio import FileWriter
from headrace.compat.passed_on import pass_on
from headrace.formats.encode_pool import Work, open_pool
from headrace.formats.ffr.layout import SUFFIX, part_paths
from headrace.formats.write import Block
from headrace.progress import ProgressBar

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headrace.errors import PathLike

__all__ = ["dump"]
pass_on(
    globals(),
    "Any Callable Mapping Path Union os pickle trange warnings",
    FileWriter="headrace.compat.ffrecord.fileio.FileWriter",
    mp="multiprocessing",
)

_MOST_PROCESSES = 16
_ADVICE = f"Try fewer files: each has a process, up to {_MOST_PROCESSES} at a time, and nfiles=1 needs none."


def dump(dataset: Any, fname: PathLike, nfiles: int, verbose: bool = False) -> None:
    """Write the samples of a dataset, which are bytes, into one file or into the parts of a folder.

    Parts are written by forked processes, and appear when all are complete. What one of them raises is raised here.

    Args:
        dataset: has ``len()`` and ``[i]``.
        fname: the file, or for several files the folder.
        nfiles: how many files; there may be fewer when there are few samples.
        verbose: show the progress.
    """
    with ProgressBar("writing", enabled=bool(verbose)) as bar:
        if nfiles == 1:
            _write_file(dataset, fname, bar)
        else:
            _write_parts(dataset, os.fspath(fname), nfiles, bar)


def _write_file(dataset: Any, path: PathLike, bar: ProgressBar) -> None:
    count = len(dataset)
    with FileWriter(path, count) as writer:
        for index in range(count):
            writer.write_one(dataset[index])
            bar(index + 1, count, writer.native.size_bytes)


def _write_parts(dataset: Any, folder: str, nfiles: int, bar: ProgressBar) -> None:
    count = len(dataset)
    per_part = -(-count // nfiles)
    if per_part < 1:
        raise ValueError(f"{count} samples cannot be written into {nfiles} files")
    blocks = [
        Block(first, None, list(range(first, min(first + per_part, count)))) for first in range(0, count, per_part)
    ]
    if len(blocks) != nfiles:
        warnings.warn(f"{count} samples make {len(blocks)} files instead of {nfiles}", stacklevel=3)
    os.makedirs(folder, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".incomplete-", dir=folder) as beside:
        writer = _PartWriter(beside, per_part, count)
        size_bytes = 0
        workers = min(_MOST_PROCESSES, len(blocks))
        with open_pool(workers, "process", Work(writer, dataset), advice=_ADVICE) as submit:
            parts = [submit(block) for block in blocks]
            for block, part in zip(blocks, parts, strict=True):
                size_bytes += part.result()
                bar(block.sources[-1] + 1, count, size_bytes)
        for block in blocks:
            path = writer.path_of(block.first_index)
            os.replace(path, os.path.join(folder, os.path.basename(path)))
    others = len(part_paths(folder)) - len(blocks)
    if others:
        problem = f"{folder} has {others} other {SUFFIX} files, and readers of the folder take them for parts, too"
        warnings.warn(problem, stacklevel=3)


@dataclass(frozen=True, slots=True)
class _PartWriter:
    """Writes samples into the part that they belong to; gives its bytes."""

    folder: str
    per_part: int
    count: int

    def path_of(self, first_index: int) -> str:
        return os.path.join(self.folder, f"PART_{first_index // self.per_part:05d}{SUFFIX}")

    def __call__(self, samples: Iterable[Any], *, first_index: int) -> int:
        with FileWriter(self.path_of(first_index), min(self.per_part, self.count - first_index)) as writer:
            for sample in samples:
                writer.write_one(sample)
        return writer.native.size_bytes
