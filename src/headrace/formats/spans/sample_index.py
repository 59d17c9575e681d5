"""Where the values of all samples of a file are."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from headrace.annex import (
    COLUMNS,
    NAMES,
    PLACES,
    Names,
    json_section,
    names_section,
    places_section,
    read_json,
    read_names,
    read_places,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from headrace.annex import Annex
    from headrace.types import Buffer

__all__ = ["SampleIndex"]

_MAX_COLUMNS = 1024


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class SampleIndex:
    """Places by sample and column, and names of the samples.

    Attributes:
        columns: what is stored of every sample, by name.
        offsets: first byte of each value in the file, samples x columns.
        sizes: bytes of each value, samples x columns.
        names: names of the samples, or None.
        facts: what the format must know besides, as JSON.
        checksums: CRC-32C of each value, samples x columns, where the pass that found them has made them.
    """

    columns: tuple[str, ...]
    offsets: npt.NDArray[np.uint64]
    sizes: npt.NDArray[np.uint64]
    names: Sequence[str] | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)
    checksums: npt.NDArray[np.uint32] | None = None

    def __len__(self) -> int:
        return len(self.offsets)

    def sections(self, format_name: str, fields: Mapping[str, str]) -> dict[str, Iterable[Buffer]]:
        """As sections of an annex; ``fields`` says in which column each field is."""
        about = {"format": format_name, "columns": self.columns, "fields": dict(fields), "facts": dict(self.facts)}
        found: dict[str, Iterable[Buffer]] = {
            COLUMNS: json_section(about),
            PLACES: places_section(self.offsets, self.sizes),
        }
        if isinstance(self.names, Names):
            found[NAMES] = self.names.section()
        elif self.names is not None:
            encoded = [name.encode("utf-8", "surrogateescape") for name in self.names]
            lengths = np.fromiter(map(len, encoded), np.uint32, len(encoded))
            found[NAMES] = names_section(lengths, [b"".join(encoded)])
        return found

    @classmethod
    def read(cls, annex: Annex, format_name: str) -> tuple[SampleIndex, dict[str, str]] | None:
        """What ``sections`` wrote: the index and the columns of fields; None when the annex has none of this format."""
        about = read_json(annex, COLUMNS)
        if about is None:
            return None
        try:
            if about["format"] != format_name:
                return None
            columns, fields, facts = about["columns"], about["fields"], about["facts"]
            is_right = (
                isinstance(facts, dict) and 0 < len(columns) <= _MAX_COLUMNS and set(fields.values()) <= {*columns}
            )
            if not is_right or not all(isinstance(name, str) for name in (*columns, *fields)):
                raise ValueError("names that are no texts, or too many of them")
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise annex.fail(COLUMNS, f"does not say what it should ({error})") from None
        places = read_places(annex, len(columns))
        if places is None:
            return None
        names = read_names(annex)
        return cls(columns=tuple(columns), offsets=places[0], sizes=places[1], names=names, facts=facts), fields
