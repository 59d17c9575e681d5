"""Samples as files of a tar or zip, and the annex that says what they were."""

from __future__ import annotations

import contextlib
import os
from abc import abstractmethod
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from headrace.annex import new_side_path, side_path
from headrace.fields import Bytes
from headrace.formats.decodes import Coded
from headrace.formats.description import Description
from headrace.formats.member_files.endings import SafeKeys, choose_endings
from headrace.formats.row_writer import Row, RowWriter
from headrace.formats.spans import IndexedFile, SpanDataset, write_span_annex
from headrace.formats.values import encode_value
from headrace.storage import AtomicFile

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from headrace.errors import PathLike
    from headrace.types import Field

__all__ = ["MemberWriter"]


def _store(field: Field, value: Any, index: int) -> bytes:
    return encode_value(field, value, index)[1]


class MemberWriter(RowWriter):
    """Writes each value as a file that is called by its sample's key and its field's ending.

    A subclass writes files into ``self._file`` and ends the archive. The annex is written when the archive has its
    name: with it, fields, types, classes, metadata and names come back as they were.

    Args:
        path: where the file goes.
        fields: name to field, in order.
        length: number of samples, if known; it is not needed.
        class_names: field name to names of its classes.
        metadata: anything JSON can hold.
        annex: write the annex.
        jpeg_index: with tile indices of the JPEGs.
    """

    def __init__(
        self,
        path: PathLike,
        fields: Mapping[str, Field],
        *,
        length: int | None = None,
        class_names: Mapping[str, Sequence[str]] | None = None,
        metadata: Any = None,
        annex: bool = True,
        jpeg_index: bool = True,
    ) -> None:
        super().__init__(fields, _store)
        if not fields:
            raise ValueError(f"{os.fspath(path)}: there are no fields, so there would be no files")
        if not annex and (class_names or metadata is not None):
            raise ValueError("class_names and metadata are kept in the annex; do not pass annex=False")
        self._path = os.fspath(path)
        self._endings = choose_endings(self.fields)
        self._coded = _codecs_of(self.fields)
        described = {name: Bytes() if name in self._coded else field for name, field in self.fields.items()}
        self._description = Description(fields=described, class_names=class_names or {}, metadata=metadata)
        Description.parse(self._path, self._description.to_text())  # an error now, not after the work
        self._annex, self._jpeg_index = annex, jpeg_index
        self._keys = SafeKeys()
        self._names: list[str] = []
        if annex:
            new_side_path(self._path)
        self._file = AtomicFile(self._path)

    def _put(self, rows: list[Row], names: Sequence[str] | None) -> None:
        for i, row in enumerate(rows):
            key = self._keys.of(None if names is None else names[i], len(self) + i)
            for ending, data in zip(self._endings.values(), row, strict=True):
                self._put_file(f"{key}.{ending}", data)
        self._names += names or ()

    @abstractmethod
    def _put_file(self, name: str, data: bytes) -> None:
        """Write one file."""

    @abstractmethod
    def _end_archive(self) -> None:
        """All files are written."""

    @abstractmethod
    def _open_indexed(self, columns: Sequence[str]) -> IndexedFile:
        """What was written, opened without an annex; the columns are there even if no sample is."""

    def _finish(self) -> None:
        self._end_archive()
        self._file.commit()
        if self._annex:
            self._write_annex()
            return
        with contextlib.suppress(FileNotFoundError):
            os.unlink(side_path(self._path))  # it belonged to what was there before

    def _write_annex(self) -> None:
        indexed = self._open_indexed(list(self._endings.values()))
        if self._coded:
            facts = {**indexed.index.facts, "coded": self._coded}
            indexed.index = replace(indexed.index, facts=facts)
        fields = self._description.fields
        with SpanDataset(indexed, schema=fields, options={"checksums": False}, columns=self._endings) as dataset:
            names = self._names if self._has_names else None
            write_span_annex(dataset, description=self._description, names=names, jpeg_index=self._jpeg_index)

    def _discard(self) -> None:
        self._file.abort()


def _codecs_of(fields: Mapping[str, Field]) -> dict[str, str]:
    found = {name: field.codec for name, field in fields.items() if isinstance(field, Coded)}
    if "pickle" in found.values():
        raise ValueError("pickles are not written: whoever reads them runs code; store the values as Json or arrays")
    return dict(found)
