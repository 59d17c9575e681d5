"""Checking a whole .beton: table, metadata, checksums and, on request, decoding."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from headrace import _native
from headrace.errors import AnnexError, ImageError
from headrace.formats.contract import byte_chunks, index_chunks
from headrace.formats.report import MAX_PROBLEMS, Found, check_all
from headrace.formats.tile_index import tile_index_problems
from headrace.progress import format_count
from headrace.storage import release_mapped
from headrace.types import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.annex import TileIndex
    from headrace.formats.beton.columns import Column
    from headrace.formats.beton.file import BetonFile
    from headrace.types import IndexArray, Progress, Report

__all__ = ["sample_chunks", "verify_beton"]

_CHUNK = 256
_CHUNK_BYTES = 4 << 20
_LOCATED = 1 << 16  # samples whose sizes are looked at together
_TABLE_PROBLEMS = {
    "sample_id_out_of_range": "names a sample that does not exist",
    "out_of_bounds": "lies outside the data pages",
    "crosses_page": "crosses a page boundary",
    "overlap": "overlaps row {other}",
    "sample_on_several_pages": "puts a sample on two pages",
}


def verify_beton(
    file: BetonFile, *, decode: bool, workers: int | None, progress: Progress | None, jpeg_index: bool = True
) -> Report:
    """Check everything that can be checked and list what is wrong; tile indices of JPEGs only if asked for."""
    about_file = _annex_problems(file) + _table_problems(file)
    tile_index = _tile_index(file, about_file) if jpeg_index else None
    total = check_all(
        lambda indices: _check(file, indices, decode, tile_index),
        len(file),
        workers=workers,
        progress=progress,
        chunks=sample_chunks(file),
    )
    total.problems = about_file + total.problems
    return total.report(file.path)


def sample_chunks(file: BetonFile) -> Iterator[IndexArray]:
    """All samples in order, a few megabytes at a time; the memory of those before them is given back."""
    for indices in index_chunks(len(file), _LOCATED):
        sizes = np.zeros(len(indices), np.uint64)
        for column in file.layout.payload_columns:
            sizes += file.locate(indices, column).sizes
        for part in byte_chunks(sizes, size_bytes=_CHUNK_BYTES, most=_CHUNK):
            release_mapped()
            yield indices[part]


def _annex_problems(file: BetonFile) -> list[Problem]:
    # Checksums and schema were read when the file was opened; the rest is read when it is asked for.
    problems = []
    for name in ("keys", "class_names", "metadata"):
        try:
            getattr(file, name)
        except AnnexError as error:
            problems.append(Problem(sample=None, field=None, message=error.problem))
    return problems


def _tile_index(file: BetonFile, problems: list[Problem]) -> TileIndex | None:
    try:
        return file.tile_index
    except AnnexError as error:
        problems.append(Problem(sample=None, field=None, message=error.problem))
        return None


def _table_problems(file: BetonFile) -> list[Problem]:
    problems = []
    for row, kind, other in file.check_table(MAX_PROBLEMS):
        sample, pointer, size = (int(v) for v in file.table[row])
        what = _TABLE_PROBLEMS.get(kind, kind).format(other=other)
        message = f"allocation table row {row} (sample {sample}, {format_count(size, 'byte')} at byte {pointer}) {what}"
        problems.append(Problem(sample=sample if sample < len(file) else None, field=None, message=message))
    return problems


def _check(file: BetonFile, indices: IndexArray, decode: bool, tile_index: TileIndex | None) -> Found:
    found = Found(samples=len(indices))
    for i in file.bad_records(indices).tolist():
        found.problems.append(Problem(sample=i, field=None, message="the metadata record does not match its checksum"))
    if file.checksums is not None:
        found.checksums += len(indices)
    for column in file.layout.payload_columns:
        _check_column(file, indices, column, decode, tile_index, found)
    return found


def _check_column(
    file: BetonFile, indices: IndexArray, column: Column, decode: bool, tile_index: TileIndex | None, found: Found
) -> None:
    spans = file.locate(indices, column)
    found.size_bytes += int(spans.sizes.sum())
    has_tile_index = tile_index is not None and column.name in file.pictures
    is_summed = file.checksums is not None or has_tile_index
    if is_summed or decode:
        base, places = file.place(spans.pointers, spans.sizes)
    if is_summed:
        sums = _native.crc32c_spans(base, places, spans.sizes)
    if file.checksums is not None:
        file.compare_checksums(spans, indices, column, sums)
        found.checksums += len(indices)
    if decode:
        members = file.members(column, indices)
        for position, member in enumerate(members):
            if position in spans.problems:
                continue
            start, size = int(places[position]), int(spans.sizes[position])
            try:
                file.decode_one(column, member, base[start : start + size])
            except (ImageError, ValueError, RecursionError) as error:
                spans.problems[position] = f"cannot be decoded ({error})"
            found.images += column.field.kind == "image"
    wrong = {}
    if tile_index is not None and has_tile_index:
        wrong = tile_index_problems(tile_index, indices, file.pictures.index(column.name), spans.sizes, sums)
    for position, message in sorted((wrong | spans.problems).items()):  # what is wrong with the JPEG itself says more
        found.problems.append(Problem(sample=int(indices[position]), field=column.name, message=message))
