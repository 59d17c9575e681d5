"""Lists of samples: a file of numbers, as the viewer saves them, and the dataset that is made of one."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace.formats.open import find_format
from headrace.formats.sets import subset
from headrace.formats.write import write
from headrace.progress import format_count

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headrace.errors import PathLike
    from headrace.types import Dataset, IndexArray, Progress

__all__ = ["parse_sample_list", "write_samples"]

_SHOWN = 60


def parse_sample_list(lines: Iterable[str], length: int) -> IndexArray:
    """Numbers of samples from lines: a number (negative ones count from the end), or a range such as 10:20.

    Args:
        lines: of the list; empty ones do not count.
        length: how many samples the dataset has.

    Raises:
        ValueError: a line is neither, or names a sample that is not there.

    Example:
        >>> parse_sample_list(["3", "7:9", "-1"], 10).tolist()
        [3, 7, 8, 9]
    """
    whole, found = np.arange(length, dtype=np.int64), []
    for number, line in enumerate(lines, 1):
        word = line.strip()
        match = re.fullmatch(r"(-?[0-9]{1,18})(?::([0-9]{1,18}))?", word)
        if word and match is None:
            raise ValueError(f"line {number} of the list must be a number or a range such as 10:20, got {_cut(word)}")
        if match is not None:
            found.append(_chosen(whole, int(match[1]), match[2], f"line {number} of the list, {_cut(word)}"))
    return np.concatenate(found) if found else whole[:0]


def _chosen(whole: IndexArray, first: int, end: str | None, where: str) -> IndexArray:
    length = len(whole)
    if end is None:
        is_there, chosen = -length <= first < length, whole[first:][:1]
    else:
        is_there, chosen = 0 <= first <= int(end) <= length, whole[first : int(end)]
    if not is_there:
        raise ValueError(f"{where}, is out of range: the dataset has {format_count(length, 'sample')}")
    return chosen


def _cut(word: str) -> str:
    return repr(word if len(word) <= _SHOWN else f"{word[:_SHOWN]}...")


def write_samples(
    path: PathLike, dataset: Dataset, indices: IndexArray, *, force: bool = False, progress: Progress | None = None
) -> int:
    """Write some samples of a dataset, in their order, into a new one; pictures stay as they are stored.

    Names, classes and what was said about the whole dataset come along where the format keeps them.

    Returns:
        Bytes of the new one.
    """
    chosen, target = subset(dataset, indices), find_format(path, must_exist=False)
    known: dict[str, Any] = {
        "class_names": dict(dataset.class_names) or None,
        "metadata": getattr(dataset, "metadata", None),
        "jpeg_index": bool(dataset.jpegs_indexed) or None,
    }
    options = {key: value for key, value in known.items() if key in target.writer_options and value is not None}
    write(path, chosen, force=force, progress=progress or False, **options)
    return target.size_bytes(os.fspath(path))
