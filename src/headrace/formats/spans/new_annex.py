"""The annex of a file that was just written."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headrace.annex import side_exists, side_path
from headrace.formats.description import Description
from headrace.formats.spans.span_annex import write_span_annex

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from headrace.formats.spans.span_dataset import SpanDataset
    from headrace.types import Field

__all__ = ["NewAnnex"]


@dataclass(frozen=True, kw_only=True, slots=True)
class NewAnnex:
    """What a writer was told that goes into the annex, and whether there will be one.

    Attributes:
        is_wanted: write one; otherwise only one that belongs to an older file is removed.
        class_names: field name to names of its classes.
        metadata: anything JSON can hold.
        jpeg_index: with tile indices of the JPEGs.
    """

    is_wanted: bool = True
    class_names: Mapping[str, Sequence[str]] | None = None
    metadata: Any = None
    jpeg_index: bool = True

    def __post_init__(self) -> None:
        if not self.is_wanted and (self.class_names or self.metadata is not None):
            raise ValueError("class_names and metadata are kept in the annex; do not pass annex=False")

    def check(self, fields: Mapping[str, Field]) -> None:
        """ValueError or TypeError for what cannot be kept: before anything is written."""
        if unknown := sorted(set(self.class_names or {}) - set(fields)):
            raise ValueError(f"class_names names {', '.join(unknown)}; the fields are {', '.join(fields)}")
        self.describe(fields).to_text()

    def describe(self, fields: Mapping[str, Field]) -> Description:
        """All that there is to say about the fields."""
        return Description(fields=dict(fields), class_names=dict(self.class_names or {}), metadata=self.metadata)

    def write(
        self,
        path: str,
        fields: Mapping[str, Field],
        open_dataset: Callable[[], SpanDataset],
        names: Sequence[str] | None = None,
    ) -> None:
        """Write the annex of a file that has its name by now, or remove what an older file has left."""
        if not self.is_wanted:
            if side_exists(path):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(side_path(path))
            return
        with open_dataset() as dataset:
            write_span_annex(dataset, description=self.describe(fields), names=names, jpeg_index=self.jpeg_index)
