"""Give an existing .beton an annex, beside it or inside."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace import _native
from headrace.annex import (
    CHECKSUMS,
    CLASSES,
    METADATA,
    NAMES,
    SCHEMA,
    TILE_INDEX,
    checksums_section,
    json_section,
    names_section,
    new_side,
    new_side_path,
    side_path,
    tile_index_section,
    write_annex,
)
from headrace.errors import FormatError
from headrace.fields import JPG
from headrace.formats.beton.layout import fingerprint, with_table_at
from headrace.formats.beton.reader import BetonDataset
from headrace.formats.beton.verify import sample_chunks, verify_beton
from headrace.formats.beton.writer import checked_class_names, encode_name
from headrace.formats.threads import map_ahead
from headrace.formats.tile_index import tile_index_of
from headrace.progress import format_count
from headrace.storage import AtomicFile, is_remote

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from headrace.errors import PathLike
    from headrace.formats.beton.columns import Column
    from headrace.formats.beton.file import BetonFile
    from headrace.types import Buffer, Progress

__all__ = ["index_beton"]

_AHEAD = 64  # pictures for each thread


def index_beton(
    path: PathLike,
    *,
    embed: bool,
    fresh: bool,
    names: Sequence[str] | None,
    class_names: Mapping[str, Sequence[str]] | None,
    metadata: Any,
    jpeg_index: bool,
    progress: Progress | None,
    follow_links: bool = False,
) -> str:
    """Give a .beton an annex; see ``headrace.index``."""
    if not embed:
        new_side_path(path)  # an error now, not after the work
    with BetonDataset(path, annex=not fresh, follow_links=follow_links) as dataset:
        if dataset.has_checksums:
            _refuse_damage(dataset)
        if names is not None and len(names) != len(dataset):
            raise ValueError(
                f"names has {format_count(len(names), 'entry')}, the file has {format_count(len(dataset), 'sample')}"
            )
        names = names if names is not None else dataset.keys
        sections: dict[str, Iterable[Buffer]] = {
            CHECKSUMS: checksums_section(1 + len(dataset.layout.payload_columns), _checksums(dataset.file, progress)),
        }
        pictures = [c for c in dataset.layout.columns if c.field.kind == "image"]
        if jpeg_index and pictures:
            packed = _tile_indices(dataset.file, pictures)
            sizes = np.fromiter(map(len, packed), np.uint32, len(packed))
            if sizes.any():
                sections[TILE_INDEX] = tile_index_section(len(pictures), sizes, packed)
        if dataset.stored_schema is not None:
            sections[SCHEMA] = json_section(dataset.stored_schema)
        if names is not None:
            encoded = [encode_name(name) for name in names]
            lengths = np.fromiter(map(len, encoded), np.uint32, len(encoded))
            sections[NAMES] = names_section(lengths, [b"".join(encoded)])
        classes = checked_class_names(class_names, dataset.schema) or dataset.class_names
        about = metadata if metadata is not None else dataset.metadata
        if classes:
            sections[CLASSES] = json_section(classes)
        if about is not None:
            sections[METADATA] = json_section(about)
        return _embed(dataset.file, sections) if embed else _put_beside(dataset.file, sections)


def _refuse_damage(dataset: BetonDataset) -> None:
    report = verify_beton(dataset.file, decode=False, workers=None, progress=None, jpeg_index=False)
    dataset.check_file()
    if not report.ok:
        raise FormatError(
            dataset.path,
            problem=f"the checksums it has already do not fit {format_count(len(report.bad_samples), 'sample')}",
            fix="New checksums would hide that. See: headrace verify",
        )


def _tile_indices(file: BetonFile, pictures: list[Column]) -> list[bytes]:
    """Packed indices of all JPEGs, sample by sample; a few threads, for the native part needs no lock."""
    by_field = [list(map_ahead(tile_index_of, _jpegs(file, column), ahead=_AHEAD)) for column in pictures]
    return [index for row in zip(*by_field, strict=True) for index in row]


def _jpegs(file: BetonFile, column: Column) -> Iterator[Buffer]:
    for indices in sample_chunks(file):
        spans = file.locate(indices, column)
        is_jpeg = file.records[column.member]["mode"][indices] == JPG
        base, starts = file.place(spans.pointers, spans.sizes)
        places = zip(starts.tolist(), spans.sizes.tolist(), is_jpeg.tolist(), strict=True)
        yield from (base[start : start + size if used else start] for start, size, used in places)


def _checksums(file: BetonFile, progress: Progress | None) -> Iterator[Buffer]:
    size_bytes = 0
    columns = file.layout.payload_columns
    for indices in sample_chunks(file):
        table = np.empty((len(indices), 1 + len(columns)), "<u4")
        table[:, 0] = file.record_checksums(indices)
        for column in columns:
            spans = file.locate(indices, column)
            file.raise_first(spans, indices, column)
            base, starts = file.place(spans.pointers, spans.sizes)
            table[:, 1 + (column.slot or 0)] = _native.crc32c_spans(base, starts, spans.sizes)
            size_bytes += int(spans.sizes.sum())
        if progress is not None:
            progress(int(indices[-1]) + 1, len(file), size_bytes)
        yield table.reshape(-1).view(np.uint8)


def _put_beside(file: BetonFile, sections: Mapping[str, Iterable[Buffer]]) -> str:
    if file.has_embedded_annex and is_remote(file.path):
        raise ValueError(
            f"{file.path} has an annex inside, and an object of a store is not changed. Make a new one in a copy on "
            "this machine (headrace index FILE --embed), and put that in its place"
        )
    if file.has_embedded_annex:
        raise ValueError(f"{file.path} has an annex inside; replace it with embed=True (--embed)")
    target = new_side_path(file.path)
    with new_side(file.path) as write:
        write_annex(
            write,
            sections,
            num_samples=len(file),
            dataset_size=lambda _: file.size_bytes,
            dataset_fingerprint=lambda _: file.fingerprint,
        )
    return target


def _embed(file: BetonFile, sections: Mapping[str, Iterable[Buffer]]) -> str:
    frame, table = file.frame, file.table_bytes
    data_end = file.data_end

    def new_frame(annex_size: int) -> bytes:
        header = with_table_at(file.layout, data_end + annex_size).pack()[:24]
        return header + frame[24:].tobytes()

    with AtomicFile(file.path) as out:
        out.copy_from(file.path, data_end)
        size = write_annex(
            out.write,
            sections,
            num_samples=len(file),
            dataset_size=lambda annex_size: data_end + annex_size + len(table),
            dataset_fingerprint=lambda annex_size: fingerprint(new_frame(annex_size), table),
        )
        out.write_at(0, new_frame(size))
        out.write([table])
    if os.path.exists(beside := side_path(file.path)):
        os.unlink(beside)  # it described the file as it was
    return file.path
