"""Tile indices of JPEGs, in any format: made, kept beside the dataset, found again and checked.

A tile index says where in a JPEG its parts begin, so that a crop is decoded without the rest. A .beton has them in its
annex. Every other format that has JPEGs keeps them in an annex of their own beside it, with the section ``jpeg_tiles``
alone. It is bound to the dataset by ``SideFacts``; a dataset that changed since is loaded without its tile indices, and
a warning says so, for they are there for speed alone.
"""

from __future__ import annotations

import os
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from headrace import _native
from headrace.annex import (
    TILE_INDEX,
    Annex,
    new_side,
    new_side_path,
    open_side,
    read_tile_index,
    tile_index_section,
    write_annex,
)
from headrace.codecs import jpeg
from headrace.errors import AnnexError
from headrace.formats.report import MAX_PROBLEMS
from headrace.types import Problem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    import numpy.typing as npt

    from headrace.annex import TileIndex
    from headrace.errors import PathLike
    from headrace.types import Buffer, ImageSpans, IndexArray, Progress, Report

__all__ = [
    "WRONG_INDEX",
    "SideFacts",
    "open_tile_index",
    "refuse_annex_options",
    "side_problems",
    "tile_index_of",
    "tile_index_or_warning",
    "tile_index_problems",
    "with_problems",
    "with_tile_index",
    "write_tile_index",
]

WRONG_INDEX = "the index of the JPEG is not right"
_CHUNK = 1024


class SideFacts(NamedTuple):
    """What binds an annex beside a dataset to it: how many tile indices there may be, of what."""

    path: str
    num_samples: int
    size_bytes: int
    fingerprint: int
    follow_links: bool = False


def tile_index_of(data: Buffer) -> bytes:
    """The packed tile index of a JPEG, empty when it has none."""
    try:
        return _native.make_tile_index(data)[0] or b""
    except _native.NativeError:  # damaged, or no JPEG at all; whoever decodes it will tell
        return b""


def write_tile_index(
    facts: SideFacts, files: Callable[[int, int], Iterable[Buffer]], progress: Progress | None = None
) -> str:
    """Write the indices of all JPEGs of a dataset beside it; gives the path of the annex.

    Args:
        facts: of the dataset.
        files: gives the stored bytes of the samples from one number up to another.
        progress: called as the work advances.
    """
    target = new_side_path(facts.path)
    packed: list[bytes] = []
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for start in range(0, facts.num_samples, _CHUNK):  # so that not all files are in memory at once
            packed += pool.map(tile_index_of, files(start, min(start + _CHUNK, facts.num_samples)))
            if progress is not None:
                progress(len(packed), facts.num_samples, sum(map(len, packed)))
    sizes = np.fromiter(map(len, packed), np.uint32, len(packed))
    if not sizes.any():
        raise ValueError(f"{facts.path} has no JPEGs that can be entered in the middle, so there is nothing to index")
    with new_side(facts.path) as write:
        write_annex(
            write,
            {TILE_INDEX: tile_index_section(1, sizes, packed)},
            num_samples=facts.num_samples,
            dataset_size=lambda _: facts.size_bytes,
            dataset_fingerprint=lambda _: facts.fingerprint,
        )
    return target


def refuse_annex_options(path: PathLike, kind: str, options: Mapping[str, object]) -> None:
    """Raise ValueError for options of ``headrace.index`` that only an annex with more than tile indices can take."""
    wrong = [name for name in ("embed", "names", "class_names", "metadata") if options.get(name) not in (None, False)]
    if options.get("jpeg_index") is False:
        wrong.append("jpeg_index=False")
    if wrong:
        raise ValueError(f"{path}: {', '.join(wrong)} is for .beton files; a .{kind} gets tile indices alone")


def open_tile_index(facts: SideFacts) -> TileIndex | None:
    """The indices beside a dataset, or None when there are none; AnnexError when they are damaged or of another one."""
    side = open_side(facts.path, follow_links=facts.follow_links)
    if side is None:
        return None
    annex = Annex.find(
        side,
        num_samples=facts.num_samples,
        dataset_size=facts.size_bytes,
        dataset_fingerprint=facts.fingerprint,
    )
    if annex is None:
        raise AnnexError(
            side.path, problem="this is not an annex", fix=f"Make a new one with: headrace index {facts.path}"
        )
    return read_tile_index(annex, 1)


def tile_index_or_warning(facts: SideFacts) -> TileIndex | None:
    """The same for loading: what cannot be used is warned of, and left alone."""
    try:
        return open_tile_index(facts)
    except AnnexError as error:
        warnings.warn(
            f"{error.path}: {error.problem}; JPEGs are decoded without their indices. Make new ones with: "
            f"headrace index {facts.path}",
            RuntimeWarning,
            stacklevel=2,
        )
        return None


def with_tile_index(spans: ImageSpans, tile_index: TileIndex | None, numbers: IndexArray) -> ImageSpans:
    """Pictures together with their indices."""
    return spans if tile_index is None else replace(spans, tile_indices=tile_index.locate(numbers, 0))


def side_problems(facts: SideFacts, files: Callable[[int, int], Iterable[Buffer]]) -> list[Problem]:
    """What is wrong with the indices beside a dataset; ``files`` as for ``write_tile_index``."""
    try:
        tile_index = open_tile_index(facts)
    except AnnexError as error:
        return [Problem(sample=None, field=None, message=f"{error.path}: {error.problem}")]
    problems = []
    for start in range(0, facts.num_samples if tile_index is not None else 0, _CHUNK):
        assert tile_index is not None
        stored = list(files(start, min(start + _CHUNK, facts.num_samples)))
        numbers = np.arange(start, start + len(stored), dtype=np.int64)
        sizes = np.fromiter(map(len, stored), np.uint64, len(stored))
        sums = np.fromiter(map(_native.crc32c, stored), np.uint32, len(stored))
        for position, message in tile_index_problems(tile_index, numbers, 0, sizes, sums).items():
            problems.append(Problem(sample=start + position, field=None, message=message))
    return problems


def with_problems(report: Report, problems: list[Problem]) -> Report:
    """A report with further problems."""
    every = (*report.problems, *problems)
    left_out = report.problems_left_out + max(0, len(every) - MAX_PROBLEMS)
    return replace(report, problems=every[:MAX_PROBLEMS], problems_left_out=left_out)


def tile_index_problems(
    tile_index: TileIndex,
    indices: IndexArray,
    column: int,
    sizes: npt.NDArray[np.uint64],
    checksums: npt.NDArray[np.uint32],
) -> dict[int, str]:
    """What is wrong with the indices of some pictures, by position.

    Args:
        tile_index: the indices of a dataset.
        indices: samples of it, as the indices are numbered.
        column: which of the fields with pictures.
        sizes: bytes of each sample's picture.
        checksums: CRC-32C of each, as its bytes are.
    """
    found = {}
    for position, packed in tile_index.stored(indices, column):
        problem = "tile index: lies outside of its section"
        if packed is not None:
            fault = jpeg.index_problem(packed, int(sizes[position]), int(checksums[position]))
            if fault is None:
                continue
            problem = fault
        found[position] = f"{WRONG_INDEX} ({problem}); make a new one with: headrace index"
    return found
