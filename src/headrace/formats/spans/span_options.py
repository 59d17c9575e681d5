"""What every dataset of spans takes when it is opened."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.formats.decodes import Decode
    from headrace.types import Field

__all__ = ["SpanOptions", "fill_options"]


class SpanOptions(TypedDict, total=False):
    """What every dataset of spans takes when it is opened.

    Attributes:
        fields: name to field, where another one is wanted than what was found.
        decode: what bytes are, of all fields of bytes or by name; see ``headrace.formats.decodes``.
        allow_pickle: needed for ``decode="pickle"``.
        checksums: compare what is read with its checksum, where there is one.
        annex: False: do not look for an annex, and keep none.
        keep_index: write what a pass over a large file has found beside it.
        cold: True reads past the page cache, False always from the mapped file; by default as it fits.
        follow_links: also read an annex that is a symbolic link, and other files beside the file.
    """

    fields: Mapping[str, Field] | None
    decode: Decode | Mapping[str, Decode] | None
    allow_pickle: bool
    checksums: bool
    annex: bool
    keep_index: bool
    cold: bool | None
    follow_links: bool


_DEFAULTS: SpanOptions = {
    "fields": None,
    "decode": None,
    "allow_pickle": False,
    "checksums": True,
    "annex": True,
    "keep_index": True,
    "cold": None,
    "follow_links": False,
}


def fill_options(given: SpanOptions, **own: Any) -> dict[str, Any]:
    """All options with their values, those of a format besides; TypeError for one that there is not."""
    if unknown := sorted(set(given) - set(_DEFAULTS)):
        raise TypeError(f"there is no option {unknown[0]!r}; the options are {', '.join((*_DEFAULTS, *own))}")
    return {**_DEFAULTS, **given, **own}
