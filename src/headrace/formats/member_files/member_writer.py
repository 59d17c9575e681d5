"""Samples as files of a tar or zip, and the annex that says what they were."""

from __future__ import annotations

import os
from abc import abstractmethod
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from headrace.fields import Bytes
from headrace.formats.decodes import Coded
from headrace.formats.member_files.endings import SafeKeys, choose_endings
from headrace.formats.spans import IndexedFile, SpanDataset, SpanWriter
from headrace.formats.values import encode_value

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Unpack

    from headrace.errors import PathLike
    from headrace.formats.row_writer import Row
    from headrace.formats.spans import AnnexOptions
    from headrace.types import Field

__all__ = ["MemberWriter"]

_BUFFERED_BYTES = 1 << 20


def _store(field: Field, value: Any, index: int) -> bytes:
    return encode_value(field, value, index)[1]


class MemberWriter(SpanWriter):
    """Writes each value as a file that is called by its sample's key and its field's ending.

    A subclass writes files into ``self._file`` and ends the archive. The annex is written when the archive has its
    name: with it, fields, types, classes, metadata and names come back as they were.

    Args:
        path: where the file goes.
        fields: name to field, in order.
        length: number of samples, if known; it is not needed.
        **annex: see ``AnnexOptions``.
    """

    def __init__(
        self,
        path: PathLike,
        fields: Mapping[str, Field],
        *,
        length: int | None = None,
        **annex: Unpack[AnnexOptions],
    ) -> None:
        if not fields:
            raise ValueError(f"{os.fspath(path)}: there are no fields, so there would be no files")
        self._endings = choose_endings(dict(fields))
        self._coded = _codecs_of(fields)
        self._keys = SafeKeys()
        self._written = 0
        self._parts: list[bytes] = []
        self._part_bytes = 0
        described = {name: Bytes() if name in self._coded else field for name, field in fields.items()}
        super().__init__(path, fields, _store, described=described, **annex)

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
        """All files are written; write what follows them, and flush."""

    @abstractmethod
    def _open_indexed(self, columns: Sequence[str]) -> IndexedFile:
        """What was written, opened without an annex; the columns are there even if no sample is."""

    def _write(self, part: bytes) -> None:
        """Write bytes of the archive, many at a time."""
        self._written += len(part)
        self._parts.append(part)
        self._part_bytes += len(part)
        if self._part_bytes >= _BUFFERED_BYTES:
            self._flush()

    def _flush(self) -> None:
        self._file.write(self._parts)
        self._parts, self._part_bytes = [], 0

    def _finish(self) -> None:
        self._end_archive()
        super()._finish()

    def _open(self) -> SpanDataset:
        indexed = self._open_indexed(list(self._endings.values()))
        if self._coded:
            facts = {**indexed.index.facts, "coded": self._coded}
            indexed.index = replace(indexed.index, facts=facts)
        return SpanDataset(indexed, schema=self._described, options={"checksums": False}, columns=self._endings)


def _codecs_of(fields: Mapping[str, Field]) -> dict[str, str]:
    found = {name: field.codec for name, field in fields.items() if isinstance(field, Coded)}
    if "pickle" in found.values():
        raise ValueError("pickles are not written: whoever reads them runs code; store the values as Json or arrays")
    return dict(found)
