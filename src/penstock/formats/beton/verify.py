"""Checking a whole .beton: table, metadata, checksums and, on request, decoding."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from penstock import _native
from penstock.errors import AnnexError, ImageError
from penstock.formats.jpeg_index import index_problems
from penstock.types import Problem, Report

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.annex import Tiles
    from penstock.formats.beton.columns import Column
    from penstock.formats.beton.reader import BetonDataset
    from penstock.types import IndexArray, Progress

__all__ = ["verify_beton"]

_MAX_PROBLEMS = 10_000
_CHUNK = 256
_TABLE_PROBLEMS = {
    "sample_id_out_of_range": "names a sample that does not exist",
    "out_of_bounds": "lies outside the data pages",
    "crosses_page": "crosses a page boundary",
    "overlap": "overlaps row {other}",
    "sample_on_several_pages": "puts a sample on two pages",
}


@dataclass(slots=True)
class _Found:
    samples: int = 0
    checksums: int = 0
    images: int = 0
    size_bytes: int = 0
    problems: list[Problem] = field(default_factory=list)


def verify_beton(
    dataset: BetonDataset, *, decode: bool, workers: int | None, progress: Progress | None, jpeg_index: bool = True
) -> Report:
    """Check everything that can be checked and list what is wrong; indices of JPEGs only if asked for."""
    problems = _annex_problems(dataset) + _table_problems(dataset)
    tiles = _tiles(dataset, problems) if jpeg_index else None
    total = _Found()
    threads = workers if workers else len(os.sched_getaffinity(0))
    with ThreadPoolExecutor(max(1, threads)) as pool:
        for found in pool.map(lambda indices: _check(dataset, indices, decode, tiles), _chunks(len(dataset))):
            total.samples += found.samples
            total.checksums += found.checksums
            total.images += found.images
            total.size_bytes += found.size_bytes
            problems += found.problems
            if progress is not None:
                progress(total.samples, len(dataset), total.size_bytes)
    return Report(
        path=dataset.path,
        samples_checked=total.samples,
        checksums_checked=total.checksums,
        images_decoded=total.images,
        size_bytes=total.size_bytes,
        problems=tuple(problems[:_MAX_PROBLEMS]),
        problems_left_out=max(0, len(problems) - _MAX_PROBLEMS),
    )


def _chunks(length: int) -> Iterator[IndexArray]:
    for start in range(0, length, _CHUNK):
        yield np.arange(start, min(start + _CHUNK, length), dtype=np.int64)


def _annex_problems(dataset: BetonDataset) -> list[Problem]:
    # Checksums and schema were read when the file was opened; the rest is read when it is asked for.
    problems = []
    for name in ("keys", "class_names", "metadata"):
        try:
            getattr(dataset, name)
        except AnnexError as error:
            problems.append(Problem(sample=None, field=None, message=error.problem))
    return problems


def _tiles(dataset: BetonDataset, problems: list[Problem]) -> Tiles | None:
    try:
        return dataset.tiles
    except AnnexError as error:
        problems.append(Problem(sample=None, field=None, message=error.problem))
        return None


def _table_problems(dataset: BetonDataset) -> list[Problem]:
    problems = []
    for row, kind, other in dataset.check_table(_MAX_PROBLEMS):
        sample, pointer, size = (int(v) for v in dataset.table[row])
        what = _TABLE_PROBLEMS.get(kind, kind).format(other=other)
        message = f"allocation table row {row} (sample {sample}, {size} bytes at byte {pointer}) {what}"
        problems.append(Problem(sample=sample if sample < len(dataset) else None, field=None, message=message))
    return problems


def _check(dataset: BetonDataset, indices: IndexArray, decode: bool, tiles: Tiles | None) -> _Found:
    found = _Found(samples=len(indices))
    for i in dataset.bad_records(indices).tolist():
        found.problems.append(Problem(sample=i, field=None, message="the metadata record does not match its checksum"))
    if dataset.has_checksums:
        found.checksums += len(indices)
    for column in dataset.layout.payload_columns:
        _check_column(dataset, indices, column, decode, tiles, found)
    return found


def _check_column(
    dataset: BetonDataset, indices: IndexArray, column: Column, decode: bool, tiles: Tiles | None, found: _Found
) -> None:
    spans = dataset.locate(indices, column)
    found.size_bytes += int(spans.sizes.sum())
    has_tiles = tiles is not None and column.name in dataset.pictures
    if dataset.has_checksums or has_tiles:
        sums = _native.crc32c_spans(dataset.mapped, spans.pointers, spans.sizes)
    if dataset.has_checksums:
        dataset.compare_checksums(spans, indices, column, sums)
        found.checksums += len(indices)
    if decode:
        members = dataset.members(column, indices)
        for position, member in enumerate(members):
            if position in spans.problems:
                continue
            pointer, size = int(spans.pointers[position]), int(spans.sizes[position])
            try:
                dataset.decode_one(column, member, dataset.mapped[pointer : pointer + size])
            except (ImageError, ValueError, RecursionError) as error:
                spans.problems[position] = f"cannot be decoded ({error})"
            found.images += column.field.kind == "image"
    wrong = {}
    if tiles is not None and has_tiles:
        wrong = index_problems(tiles, indices, dataset.pictures.index(column.name), spans.sizes, sums)
    for position, message in sorted((wrong | spans.problems).items()):  # what is wrong with the JPEG itself says more
        found.problems.append(Problem(sample=int(indices[position]), field=column.name, message=message))
