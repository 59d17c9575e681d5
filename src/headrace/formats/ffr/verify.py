"""Checking whole .ffr files: every offset, every checksum and, on request, decoding."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from headrace import _native
from headrace.errors import ImageError
from headrace.formats.report import Found, check_all
from headrace.progress import format_count
from headrace.types import Problem

if TYPE_CHECKING:
    from headrace.formats.ffr.dataset import FfrDataset
    from headrace.formats.ffr.reader import FfrReader, FfrSpans
    from headrace.types import IndexArray, Progress, Report

__all__ = ["verify_ffr"]


def verify_ffr(dataset: FfrDataset, *, decode: bool, workers: int | None, progress: Progress | None) -> Report:
    """Check everything that can be checked and list what is wrong."""
    stray = _stray_bytes(dataset.reader)
    total = check_all(
        lambda indices: _check(dataset, indices, decode), len(dataset), workers=workers, progress=progress
    )
    total.problems = stray + total.problems
    return total.report(dataset.path)


def _stray_bytes(reader: FfrReader) -> list[Problem]:
    problems = []
    for path, layout in zip(reader.paths, reader.layouts, strict=True):
        stray = layout.size_bytes - layout.header_end
        if layout.num_samples == 0 and stray:
            message = f"{path} has no samples, and {format_count(stray, 'byte')} behind its header"
            problems.append(Problem(sample=None, field=None, message=message))
    return problems


def _check(dataset: FfrDataset, indices: IndexArray, decode: bool) -> Found:
    reader, (name,) = dataset.reader, dataset.schema
    numbers = dataset.numbers(indices)
    spans = reader.locate(numbers)
    bad = spans.is_bad()
    found = Found(samples=len(indices), checksums=len(indices), size_bytes=int(spans.sizes[~bad].sum()))
    sums, undecoded = _looked_at(dataset, spans, decode)
    is_picture = dataset.schema[name].kind == "image"
    for position, i in enumerate(indices.tolist()):
        problem = ""
        if bad[position]:
            problem = reader.misplaced(numbers, spans, position).problem
        elif sums[position] != spans.checksums[position]:
            problem = f"checksum {spans.checksums[position]:#010x} expected, found {sums[position]:#010x}"
        elif decode:
            problem = undecoded.get(position, "")
            found.images += is_picture
        if problem:
            found.problems.append(Problem(sample=i, field=name, message=problem))
    return found


def _looked_at(dataset: FfrDataset, spans: FfrSpans, decode: bool) -> tuple[IndexArray, dict[int, str]]:
    """Checksums of samples, and why some cannot be decoded; nothing of those whose place cannot be right."""
    sums = np.zeros(len(spans), np.int64)
    problems: dict[int, str] = {}
    good = np.flatnonzero(~spans.is_bad())
    for mine, base, starts in dataset.reader.regions(spans.some(good)):
        here = good[mine]
        sums[here] = _native.crc32_spans(base, starts, spans.sizes[here])
        for position, start in zip(here.tolist(), starts.tolist(), strict=True) if decode else ():
            data = base[start : start + int(spans.sizes[position])].tobytes()
            if sums[position] == spans.checksums[position] and (problem := _decoding_problem(dataset, data)):
                problems[position] = problem
    return sums, problems


def _decoding_problem(dataset: FfrDataset, data: bytes) -> str:
    try:
        dataset.decode_one(data)
    except (ImageError, ValueError, RecursionError) as error:
        return f"cannot be decoded ({error})"
    return ""
