"""What ``headrace info`` says about an .ffr, as plain values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.fields import to_spec

if TYPE_CHECKING:
    from headrace.formats.ffr.dataset import FfrDataset

__all__ = ["summarize"]


def summarize(dataset: FfrDataset) -> dict[str, Any]:
    """Counts, sizes and header checksums of the files."""
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
        "jpegs_indexed": 0 if dataset.tiles is None else dataset.tiles.count,
    }
