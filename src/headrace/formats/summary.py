"""What is in a dataset of any format, as plain values and in words, without decoding anything."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from headrace.fields import to_spec
from headrace.formats.open import find_format
from headrace.progress import format_bytes, format_count
from headrace.types import Summary

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.errors import PathLike

__all__ = ["field_words", "summarize"]


def summarize(path: PathLike, *, follow_links: bool = False) -> Summary:
    """What a format says about a path; by default fields, counts and sizes."""
    found, name = find_format(path), os.fspath(path)
    options = found.link_options(follow_links)
    if found.summarize is not None:
        return found.summarize(name, **options)
    with found.open_checked(name, **options) as dataset:
        samples, size_bytes = len(dataset), found.size_bytes(name)
        fields = {field: to_spec(kind) for field, kind in dataset.schema.items()}
        values = {
            "path": dataset.path,
            "format": found.name,
            "samples": samples,
            "size_bytes": size_bytes,
            "fields": fields,
        }
    return Summary(
        values=values,
        headline=f"{format_count(samples, 'sample')}, {format_bytes(size_bytes)}",
        fields={field: field_words(about) for field, about in fields.items()},
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
