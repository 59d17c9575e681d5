"""What is in a dataset of any format, as plain values and in words, without decoding anything."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.fields import to_spec
from headrace.formats.open import locate, open_place
from headrace.progress import format_bytes, format_count
from headrace.types import Summary

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.errors import PathLike

__all__ = ["field_words", "summarize"]


def summarize(path: PathLike, *, follow_links: bool = False) -> Summary:
    """What a format says about a path; by default, and of many files, fields, counts and sizes."""
    place = locate(path)
    found, name = place.format, place.paths[0]
    options: dict[str, Any] = found.link_options(follow_links)
    if found.summarize is not None and len(place.paths) == 1:
        found.check_reads(name)
        return found.summarize(name, **options)
    with open_place(place, **options) as dataset:
        indexed = dataset.jpegs_indexed
        samples, size_bytes = len(dataset), sum(map(found.size_bytes, place.paths))
        fields = {field: to_spec(kind) for field, kind in dataset.schema.items()}
        values: dict[str, object] = {
            "path": dataset.path,
            "format": found.name,
            "samples": samples,
            "size_bytes": size_bytes,
            "fields": fields,
            "has_checksums": dataset.has_checksums,
            "jpegs_indexed": indexed,
        }
        values |= {"files": list(place.paths)} if len(place.paths) > 1 else {}
    details = [("files", format_count(len(place.paths), "file"))] if len(place.paths) > 1 else []
    details += [("checksums", "yes")] if values["has_checksums"] else []
    details += [("jpeg index", f"of {format_count(indexed, 'JPEG')}")] if indexed else []
    return Summary(
        values=values,
        headline=f"{format_count(samples, 'sample')}, {format_bytes(size_bytes)}",
        fields={field: field_words(about) for field, about in fields.items()},
        details=details,
    )


def field_words(about: Mapping[str, Any]) -> str:
    """A field in one line, from its specification."""
    parts = [str(about["kind"])]
    if "dtype" in about:
        parts.append(f"{about['dtype']} {'x'.join(map(str, about['shape']))}")
    if "images" in about:
        parts.append(", ".join(f"{count:,} {mode}" for mode, count in about["images"].items() if count))
        for side in ("width", "height"):
            if side in about:
                spread = about[side]
                parts.append(f"{side} {spread['min']} to {spread['max']}, mean {spread['mean']:.0f}")
    return "; ".join(parts)
