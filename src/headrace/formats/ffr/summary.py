"""What ``headrace info`` says about an .ffr."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.fields import to_spec
from headrace.formats.ffr.dataset import FfrDataset
from headrace.formats.summary import field_words
from headrace.progress import format_bytes, format_count
from headrace.types import Summary

if TYPE_CHECKING:
    from headrace.errors import PathLike

__all__ = ["summarize_ffr"]


def summarize_ffr(path: PathLike, *, follow_links: bool = False) -> Summary:
    """Counts, sizes and header checksums of the files."""
    with FfrDataset(path, follow_links=follow_links) as dataset:
        values = _values(dataset)
    return Summary(
        values=values,
        headline=f"{format_count(values['samples'], 'sample')}, {format_bytes(values['size_bytes'])}",
        fields={name: field_words(about) for name, about in values["fields"].items()},
        details=_details(values),
    )


def _values(dataset: FfrDataset) -> dict[str, Any]:
    layouts = dataset.reader.layouts
    return {
        "path": dataset.path,
        "format": "ffr",
        "samples": len(dataset),
        "size_bytes": dataset.reader.size_bytes,
        "fields": {name: to_spec(field) for name, field in dataset.schema.items()},
        "files": len(layouts),
        "header_bytes": sum(layout.header_end for layout in layouts),
        "headers_without_checksum": sum(layout.header_checksum == 0 for layout in layouts),
        "is_packed_folder": dataset.keys is not None,
        "has_checksums": True,
        "has_names": dataset.keys is not None,
        "jpegs_indexed": 0 if dataset.tile_index is None else dataset.tile_index.count,
    }


def _details(values: dict[str, Any]) -> list[tuple[str, str]]:
    old = values["headers_without_checksum"]
    details = [
        ("files", f"{values['files']:,}, headers {format_bytes(values['header_bytes'])}"),
        ("checksums", "of every sample" + (f"; {old:,} headers have none" if old else " and header")),
    ]
    if values["is_packed_folder"]:
        details.append(("packed folder", f"{format_count(values['samples'], 'file')} by path"))
    if values["jpegs_indexed"]:
        details.append(("jpeg index", f"{values['jpegs_indexed']:,} of {format_count(values['samples'], 'sample')}"))
    return details
