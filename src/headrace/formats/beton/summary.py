"""What ``headrace info`` says about a .beton, as plain values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from headrace.fields import JPG, RAW, to_spec
from headrace.formats.beton.reader import BetonDataset
from headrace.formats.summary import field_words
from headrace.progress import format_bytes, format_count
from headrace.types import Summary

if TYPE_CHECKING:
    from headrace.errors import PathLike

__all__ = ["summarize_beton"]


def summarize_beton(path: PathLike, *, follow_links: bool = False) -> Summary:
    """Schema, counts, sizes, image modes, page use and annex of a file."""
    with BetonDataset(path, follow_links=follow_links) as dataset:
        values = _values(dataset)
    return Summary(
        values=values,
        headline=f"{format_count(values['samples'], 'sample')}, {format_bytes(values['size_bytes'])}",
        fields={name: field_words(about) for name, about in values["fields"].items()},
        details=_details(values),
    )


def _values(dataset: BetonDataset) -> dict[str, Any]:
    layout = dataset.layout
    sizes = dataset.table[:, 2]
    stored = int(sizes.sum())
    pages = (dataset.file.data_end - layout.data_start) // layout.page_size if layout.payload_columns else 0
    return {
        "path": dataset.path,
        "format": "beton",
        "samples": len(dataset),
        "size_bytes": dataset.file.size_bytes,
        "fields": {name: _field(dataset, name) for name in dataset.schema},
        "payload_bytes": stored,
        "metadata_bytes": layout.metadata_end - layout.metadata_start,
        "table_bytes": int(dataset.table.nbytes),
        "page_size": layout.page_size,
        "pages": pages,
        "page_use": stored / (pages * layout.page_size) if pages else None,
        "annex": _annex(dataset),
        "has_checksums": dataset.has_checksums,
        "jpegs_indexed": 0 if dataset.tile_index is None else dataset.tile_index.count,
        "has_names": dataset.keys is not None,
        "classes": {name: len(values) for name, values in dataset.class_names.items()},
        "metadata": dataset.metadata,
    }


def _field(dataset: BetonDataset, name: str) -> dict[str, Any]:
    column = next(c for c in dataset.layout.columns if c.name == name)
    about: dict[str, Any] = {"type_id": column.type_id, **to_spec(dataset.schema[name])}
    if column.field.kind != "image":
        return about
    if dataset.stored_schema is None:
        about = {"type_id": column.type_id, "kind": "image"}  # a file of FFCV does not say how it was written
    facts = dataset.image_facts(name)
    mode = facts["mode"]
    jpg, raw = (int(np.count_nonzero(mode == wanted)) for wanted in (JPG, RAW))
    about["images"] = {"jpg": jpg, "raw": raw, "unknown": len(mode) - jpg - raw}
    for side in ("width", "height"):
        if len(facts):
            values = facts[side]
            about[side] = {"min": int(values.min()), "mean": float(values.mean()), "max": int(values.max())}
    return about


def _annex(dataset: BetonDataset) -> dict[str, Any] | None:
    annex = dataset.annex
    if annex is None:
        return None
    where = "embedded" if annex.path == dataset.path else "beside"
    return {"where": where, "size_bytes": annex.size_bytes, "sections": annex.names()}


def _details(values: dict[str, Any]) -> list[tuple[str, str]]:
    details = [
        ("payloads", format_bytes(values["payload_bytes"])),
        ("metadata", format_bytes(values["metadata_bytes"])),
    ]
    if values["pages"]:
        page = format_bytes(values["page_size"])
        details.append(("pages", f"{values['pages']:,} of {page}, {values['page_use']:.1%} used"))
    annex = values["annex"]
    if annex is None:
        how = f"headrace index {values['path']}"
        details.append(("annex", f"none: values cannot be checked. Make one with: {how}"))
    else:
        size = format_bytes(annex["size_bytes"])
        details.append(("annex", f"{annex['where']}, {size}: {', '.join(annex['sections'])}"))
    if jpegs := sum(about.get("images", {}).get("jpg", 0) for about in values["fields"].values()):
        details.append(("jpeg index", f"{values['jpegs_indexed']:,} of {format_count(jpegs, 'JPEG')}"))
    details += [("classes", f"{count:,} in field {name!r}") for name, count in values["classes"].items()]
    if values["metadata"] is not None:
        details.append(("about", str(values["metadata"])))
    return details
