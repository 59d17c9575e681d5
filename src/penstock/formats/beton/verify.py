"""Checking a whole .beton: table, metadata, checksums and, on request, decoding."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from penstock import _native
from penstock.errors import AnnexError, ImageError
from penstock.types import Problem, Report

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.formats.beton.columns import Column
    from penstock.formats.beton.file import BetonFile
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


def verify_beton(file: BetonFile, *, decode: bool, workers: int | None, progress: Progress | None) -> Report:
    """Check everything that can be checked and list what is wrong."""
    problems = _annex_problems(file) + _table_problems(file)
    total = _Found()
    threads = workers if workers else len(os.sched_getaffinity(0))
    with ThreadPoolExecutor(max(1, threads)) as pool:
        for found in pool.map(lambda indices: _check(file, indices, decode), _chunks(len(file))):
            total.samples += found.samples
            total.checksums += found.checksums
            total.images += found.images
            total.size_bytes += found.size_bytes
            problems += found.problems
            if progress is not None:
                progress(total.samples, len(file), total.size_bytes)
    return Report(
        path=file.path,
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


def _annex_problems(file: BetonFile) -> list[Problem]:
    # Checksums and schema were read when the file was opened; the rest is read when it is asked for.
    problems = []
    for name in ("keys", "class_names", "metadata"):
        try:
            getattr(file, name)
        except AnnexError as error:
            problems.append(Problem(sample=None, field=None, message=error.problem))
    return problems


def _table_problems(file: BetonFile) -> list[Problem]:
    problems = []
    for row, kind, other in file.check_table(_MAX_PROBLEMS):
        sample, pointer, size = (int(v) for v in file.table[row])
        what = _TABLE_PROBLEMS.get(kind, kind).format(other=other)
        message = f"allocation table row {row} (sample {sample}, {size} bytes at byte {pointer}) {what}"
        problems.append(Problem(sample=sample if sample < len(file) else None, field=None, message=message))
    return problems


def _check(file: BetonFile, indices: IndexArray, decode: bool) -> _Found:
    found = _Found(samples=len(indices))
    for i in file.bad_records(indices).tolist():
        found.problems.append(Problem(sample=i, field=None, message="the metadata record does not match its checksum"))
    if file.checksums is not None:
        found.checksums += len(indices)
    for column in file.layout.payload_columns:
        _check_column(file, indices, column, decode, found)
    return found


def _check_column(file: BetonFile, indices: IndexArray, column: Column, decode: bool, found: _Found) -> None:
    spans = file.locate(indices, column)
    found.size_bytes += int(spans.sizes.sum())
    if file.checksums is not None:
        sums = _native.crc32c_spans(file.mapped, spans.pointers, spans.sizes)
        file.compare_checksums(spans, indices, column, sums)
        found.checksums += len(indices)
    if decode:
        members = file.members(column, indices)
        for position, member in enumerate(members):
            if position in spans.problems:
                continue
            pointer, size = int(spans.pointers[position]), int(spans.sizes[position])
            try:
                file.decode_one(column, member, file.mapped[pointer : pointer + size])
            except (ImageError, ValueError, RecursionError) as error:
                spans.problems[position] = f"cannot be decoded ({error})"
            found.images += column.field.kind == "image"
    for position, message in sorted(spans.problems.items()):
        found.problems.append(Problem(sample=int(indices[position]), field=column.name, message=message))
