"""The annex of a file whose values are spans: places, names, checksums, tile indices, and what the fields are."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace import _native
from headrace.annex import (
    CHECKSUMS,
    CLASSES,
    METADATA,
    SCHEMA,
    TILE_INDEX,
    checksums_section,
    json_section,
    new_side_path,
    tile_index_section,
)
from headrace.errors import FormatError
from headrace.fields import Image, to_spec
from headrace.formats.contract import byte_chunks
from headrace.formats.threads import map_ahead
from headrace.formats.tile_index import tile_index_of
from headrace.progress import format_count
from headrace.storage import release_mapped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from headrace.errors import PathLike
    from headrace.formats.description import Description
    from headrace.formats.spans.span_dataset import SpanDataset
    from headrace.types import Buffer, Progress

__all__ = ["index_spans", "write_span_annex"]

_CHUNK = 1024
_CHUNK_BYTES = 32 << 20


def index_spans(
    open_dataset: Callable[..., SpanDataset],
    path: PathLike,
    *,
    embed: bool = False,
    fresh: bool = False,
    names: Sequence[str] | None = None,
    class_names: Mapping[str, Sequence[str]] | None = None,
    metadata: Any = None,
    jpeg_index: bool = True,
    progress: Progress | None = None,
    follow_links: bool = False,
    is_one_pass: bool = False,
) -> str:
    """Give a file an annex; see ``headrace.index``.

    A format binds ``open_dataset`` and has its ``Format.index``. With ``is_one_pass`` it takes ``make_checksums`` and
    ``progress``, and the pass that finds the samples sums them up.
    """
    if embed:
        raise ValueError(f"{os.fspath(path)}: embed is for .beton files; the annex of this format lies beside the file")
    new_side_path(path)  # an error now, not after the work
    options: dict[str, Any] = {"annex": not fresh, "keep_index": False, "follow_links": follow_links}
    if is_one_pass:
        options |= {"make_checksums": True, "progress": progress}
    with open_dataset(path, **options) as dataset:
        if dataset.has_checksums and dataset.indexed.index.checksums is None:
            _refuse_damage(dataset)
        if names is not None and len(names) != len(dataset):
            raise ValueError(
                f"names has {format_count(len(names), 'entry')}, the file has {format_count(len(dataset), 'sample')}"
            )
        known = dataset.indexed.description
        return write_span_annex(
            dataset,
            description=known,
            names=names,
            class_names=class_names,
            metadata=metadata,
            jpeg_index=jpeg_index,
            progress=progress,
        )


def _refuse_damage(dataset: SpanDataset) -> None:
    report = dataset.verify()
    if not report.ok:
        raise FormatError(
            dataset.path,
            problem=f"the checksums it has already do not fit {format_count(len(report.bad_samples), 'sample')}",
            fix="New checksums would hide that. See: headrace verify",
        )


def write_span_annex(
    dataset: SpanDataset,
    *,
    description: Description | None = None,
    names: Sequence[str] | None = None,
    class_names: Mapping[str, Sequence[str]] | None = None,
    metadata: Any = None,
    jpeg_index: bool = True,
    progress: Progress | None = None,
) -> str:
    """Write the annex of a dataset and give its path.

    Args:
        dataset: opened.
        description: what the fields are where the file itself does not say it, such as a writer knows it.
        names: a name for each sample; by default those that it has.
        class_names: field name to names of its classes; by default those that it has.
        metadata: anything JSON can hold; by default what it has.
        jpeg_index: with tile indices of the JPEGs.
        progress: called as the work advances.
    """
    indexed = dataset.indexed
    fields = {name: indexed.index.columns[column] for name, column in dataset._columns.items()}
    index = indexed.index
    chosen = names if names is not None else dataset.keys
    if chosen is not index.names:
        index = replace(index, names=chosen)
    sections = index.sections(indexed.format_name, fields)
    sections[CHECKSUMS] = checksums_section(len(index.columns), _checksums(dataset, progress))
    pictures = [name for name, field in dataset.schema.items() if isinstance(field, Image) and name in fields]
    if jpeg_index and pictures:
        packed = _tile_indices(dataset, pictures)
        sizes = np.fromiter(map(len, packed), np.uint32, len(packed))
        if sizes.any():
            sections[TILE_INDEX] = tile_index_section(len(pictures), sizes, packed)
    schema = dataset.schema if description is None else description.fields
    sections |= dataset.more_sections(schema, jpeg_index)
    if description is not None or class_names or metadata is not None:
        sections[SCHEMA] = json_section([[name, to_spec(field)] for name, field in schema.items()])
    classes = class_names or (description.class_names if description is not None else dataset.class_names)
    if classes:
        sections[CLASSES] = json_section({name: list(known) for name, known in classes.items()})
    about = metadata if metadata is not None else (description.metadata if description is not None else None)
    if about is not None:
        sections[METADATA] = json_section(about)
    return indexed.write(sections)


def _checksums(dataset: SpanDataset, progress: Progress | None) -> Iterator[Buffer]:
    index, file = dataset.indexed.index, dataset.indexed.file
    if index.checksums is not None:
        if progress is not None:
            progress(len(index), len(index), file.size_bytes)
        yield index.checksums.astype("<u4", copy=False).reshape(-1).view(np.uint8)
        return
    done = 0
    for chunk in byte_chunks(index.sizes.sum(axis=1), size_bytes=_CHUNK_BYTES, most=_CHUNK):
        offsets, sizes = index.offsets[chunk], index.sizes[chunk]
        base, starts = file.mapped, offsets.reshape(-1)
        if not file.is_local:
            base, starts = file.region(starts, sizes.reshape(-1))
        table = _native.crc32c_spans(base, starts, sizes.reshape(-1))
        dataset.check_file()
        done += int(sizes.sum())
        if progress is not None:
            progress(int(chunk[-1]) + 1, len(index), done)
        release_mapped()
        yield table.astype("<u4").view(np.uint8)


def _tile_indices(dataset: SpanDataset, pictures: list[str]) -> list[bytes]:
    """Packed indices of all JPEGs, sample by sample."""
    by_field = [list(map_ahead(tile_index_of, _pictures_of(dataset, name), ahead=64)) for name in pictures]
    return [packed for row in zip(*by_field, strict=True) for packed in row]


def _pictures_of(dataset: SpanDataset, field: str) -> Iterable[Buffer]:
    file = dataset.indexed.file
    widths = dataset.indexed.index.sizes[:, dataset._column(field)]
    for chunk in byte_chunks(widths, size_bytes=_CHUNK_BYTES, most=_CHUNK):
        offsets, sizes, _ = dataset._places(chunk, field)
        if file.is_local:
            yield from (file.mapped[at : at + size] for at, size in zip(offsets.tolist(), sizes.tolist(), strict=True))
        else:
            yield from file.read(offsets, sizes)
        release_mapped()
