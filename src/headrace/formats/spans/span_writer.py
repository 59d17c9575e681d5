"""What writers share whose samples become spans of one file: the file, the names, and the annex at the end."""

from __future__ import annotations

import os
from abc import abstractmethod
from typing import TYPE_CHECKING, Any, TypedDict

from headrace.annex import new_side_path
from headrace.formats.row_writer import RowWriter
from headrace.formats.spans.new_annex import NewAnnex
from headrace.storage import AtomicFile

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Unpack

    from headrace.errors import PathLike
    from headrace.formats.row_writer import StoreValue
    from headrace.formats.spans.span_dataset import SpanDataset
    from headrace.types import Field

__all__ = ["AnnexOptions", "SpanWriter"]


class AnnexOptions(TypedDict, total=False):
    """What goes into the annex of a file that is written.

    Attributes:
        annex: write one: places, names, checksums, and what the fields are, so that they are read back as they were.
        class_names: field name to names of its classes.
        metadata: anything JSON can hold.
        jpeg_index: with tile indices of the JPEGs.
    """

    annex: bool
    class_names: Mapping[str, Sequence[str]] | None
    metadata: Any
    jpeg_index: bool


class SpanWriter(RowWriter):
    """Writes rows into ``self._file``; a subclass gives ``_put`` and ``_open``.

    It finds what is wrong with the fields before it calls ``__init__`` of this class, which begins the file.

    Args:
        path: where the file goes.
        fields: name to field, in order.
        store: turns a value into what is stored.
        described: the fields as the annex describes them, where these are others.
        **annex: see ``AnnexOptions``.
    """

    def __init__(
        self,
        path: PathLike,
        fields: Mapping[str, Field],
        store: StoreValue,
        *,
        described: Mapping[str, Field] | None = None,
        **annex: Unpack[AnnexOptions],
    ) -> None:
        super().__init__(fields, store)
        is_wanted = annex.pop("annex", True)
        self._annex = NewAnnex(is_wanted=is_wanted, **annex)  # type: ignore[misc]  # what is left is its own
        self._described = self.fields if described is None else described
        self._annex.check(self._described)
        self._path = os.fspath(path)
        self._names: list[str] = []
        if is_wanted:
            new_side_path(self._path)  # an error now, not after the work
        self._file = AtomicFile(self._path)

    def _note_names(self, names: Sequence[str] | None) -> None:
        """Keep names for the annex, the only place that they have."""
        if names is not None and not self._annex.is_wanted:
            raise ValueError("names are kept in the annex; do not pass annex=False")
        self._names += names or ()

    @abstractmethod
    def _open(self) -> SpanDataset:
        """What was written, opened without an annex."""

    def _finish(self) -> None:
        self._file.commit()
        self._annex.write(self._path, self._described, self._open, self._names if self._has_names else None)

    def _discard(self) -> None:
        self._file.abort()
