"""Checking whole .ffr files: every offset, every checksum and, on request, decoding."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from penstock import _native
from penstock.errors import ImageError
from penstock.types import Problem, Report

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.formats.ffr.dataset import FfrDataset
    from penstock.formats.ffr.reader import FfrReader, FfrSpans
    from penstock.types import IndexArray, Progress

__all__ = ["verify_ffr"]

_MAX_PROBLEMS = 10_000
_CHUNK = 256


@dataclass(slots=True)
class _Found:
    samples: int = 0
    images: int = 0
    size_bytes: int = 0
    problems: list[Problem] = field(default_factory=list)


def verify_ffr(dataset: FfrDataset, *, decode: bool, workers: int | None, progress: Progress | None) -> Report:
    """Check everything that can be checked and list what is wrong."""
    total = _Found(problems=_stray_bytes(dataset.reader))
    threads = workers if workers else len(os.sched_getaffinity(0))
    with ThreadPoolExecutor(max(1, threads)) as pool:
        for found in pool.map(lambda indices: _check(dataset, indices, decode), _chunks(len(dataset))):
            total.samples += found.samples
            total.images += found.images
            total.size_bytes += found.size_bytes
            total.problems += found.problems
            if progress is not None:
                progress(total.samples, len(dataset), total.size_bytes)
    return Report(
        path=dataset.path,
        samples_checked=total.samples,
        checksums_checked=total.samples,
        images_decoded=total.images,
        size_bytes=total.size_bytes,
        problems=tuple(total.problems[:_MAX_PROBLEMS]),
        problems_left_out=max(0, len(total.problems) - _MAX_PROBLEMS),
    )


def _chunks(length: int) -> Iterator[IndexArray]:
    for start in range(0, length, _CHUNK):
        yield np.arange(start, min(start + _CHUNK, length), dtype=np.int64)


def _stray_bytes(reader: FfrReader) -> list[Problem]:
    problems = []
    for path, layout in zip(reader.paths, reader.layouts, strict=True):
        stray = layout.size_bytes - layout.header_end
        if layout.num_samples == 0 and stray:
            message = f"{path} has no samples, and {stray} bytes behind its header"
            problems.append(Problem(sample=None, field=None, message=message))
    return problems


def _check(dataset: FfrDataset, indices: IndexArray, decode: bool) -> _Found:
    reader, (name,) = dataset.reader, dataset.schema
    numbers = dataset.numbers(indices)
    spans = reader.locate(numbers)
    bad = spans.is_bad()
    found = _Found(samples=len(indices), size_bytes=int(spans.sizes[~bad].sum()))
    sums = _checksums(reader, spans)
    is_picture = dataset.schema[name].kind == "image"
    for position, i in enumerate(indices.tolist()):
        problem = ""
        if bad[position]:
            problem = reader.misplaced(numbers, spans, position).problem
        elif sums[position] != spans.checksums[position]:
            problem = f"checksum {spans.checksums[position]:#010x} expected, found {sums[position]:#010x}"
        elif decode:
            problem = _decoding_problem(dataset, spans, position)
            found.images += is_picture
        if problem:
            found.problems.append(Problem(sample=i, field=name, message=problem))
    return found


def _checksums(reader: FfrReader, spans: FfrSpans) -> IndexArray:
    sums = np.zeros(len(spans), np.int64)
    bad = spans.is_bad()
    for file in set(spans.files.tolist()):
        mine = (spans.files == file) & ~bad
        sums[mine] = _native.crc32_spans(reader.mapped(file), spans.offsets[mine], spans.sizes[mine])
    return sums


def _decoding_problem(dataset: FfrDataset, spans: FfrSpans, position: int) -> str:
    offset, size = int(spans.offsets[position]), int(spans.sizes[position])
    data = dataset.reader.mapped(int(spans.files[position]))[offset : offset + size].tobytes()
    try:
        dataset.decode_one(data)
    except (ImageError, ValueError, RecursionError) as error:
        return f"cannot be decoded ({error})"
    return ""
