"""A zip as a dataset."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from headrace import _native
from headrace.errors import FormatError
from headrace.formats.contract import BaseDataset, join_images
from headrace.formats.member_files.member_dataset import MemberDataset, open_fitting, read_spans
from headrace.formats.spans import fill_options
from headrace.formats.spans.span_file import BadSpanError
from headrace.formats.zip.members import DEFLATED, ZipMembers, open_zip
from headrace.types import Problem

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Unpack

    from headrace.annex import TileIndex
    from headrace.errors import PathLike
    from headrace.formats.report import Found
    from headrace.formats.spans import SpanOptions
    from headrace.types import ImageSpans, IndexArray, Ragged, Source

__all__ = ["ZipDataset"]


class ZipDataset(MemberDataset):
    """A zip of plain files, or of samples with several files each.

    Files that are not compressed are read in place. Others are unpacked each time that they are read, and their CRC-32
    is compared.

    Args:
        path: the zip.
        group: True: files whose names are the same up to the first dot are one sample, with a field for each ending.
            False: each file is a sample; if there are pictures, only they are. By default what the names suggest.
        max_unpacked_bytes: refuse what unpacks to more; by default 1 GiB, or 200 times the file.
        **options: see ``SpanOptions``; ``decode="bytes"`` makes every file a sample of its bytes.

    Example:
        >>> import os, tempfile, headrace
        >>> path = os.path.join(tempfile.mkdtemp(), "x.zip")
        >>> headrace.write(path, [("one", 1), ("two", 2)], fields={"txt": headrace.Text(), "cls": headrace.Int()})
        >>> ZipDataset(path)[1]
        Sample(txt='two', cls=2)
    """

    def __init__(
        self,
        path: PathLike,
        *,
        group: bool | None = None,
        max_unpacked_bytes: int | None = None,
        **options: Unpack[SpanOptions],
    ) -> None:
        known = fill_options(options, group=group, max_unpacked_bytes=max_unpacked_bytes)
        indexed = open_fitting(open_zip, path, known)
        self._members = members = ZipMembers(indexed, max_unpacked_bytes=max_unpacked_bytes)

        def read(indices: IndexArray, column: str) -> list[bytes]:
            stored = read_spans(indexed, indices, column)
            return members.unpacked(indices, indexed.index.columns.index(column), stored)

        super().__init__(indexed, known, read)

    def _stored(self, indices: IndexArray, field: str) -> Sequence[Any] | npt.NDArray[Any]:
        stored = super()._stored(indices, field)
        if field not in self._columns or isinstance(stored, np.ndarray):
            return stored
        try:
            return self._members.unpacked(indices, self._columns[field], stored)
        except BadSpanError as error:
            self._fail(indices, field, error)

    def read_ragged(self, indices: IndexArray, field: str, source: Source | None = None) -> Ragged:
        """Files of one field, one after the other."""
        if self._members.is_packed:
            return BaseDataset.read_ragged(self, indices, field, source)
        return super().read_ragged(indices, field, source)

    def image_spans(self, indices: IndexArray, field: str, source: Source | None = None) -> ImageSpans:
        """The undecoded bytes of pictures: where they are, or unpacked."""
        if self._members.is_packed:
            return join_images(self.path, field, indices, self.read_bytes(indices, field))
        return super().image_spans(indices, field, source)

    @property
    def tile_index(self) -> TileIndex | None:
        """Tile indices of the JPEGs, or None; they are of no use where files are compressed."""
        return None if self._members.is_packed else super().tile_index

    def _in_words(self, indices: IndexArray, field: str) -> list[object]:
        if self._members.is_packed and field in self._columns and self._schema[field].has_payload:
            return [f"{size}B" for size in self._members.full_sizes(indices, self._columns[field]).tolist()]
        return super()._in_words(indices, field)

    # Checking

    def _check(self, indices: IndexArray, decode: bool) -> Found:
        found = super()._check(indices, decode)
        bad = {(problem.sample, problem.field) for problem in found.problems}
        for name, column in self._columns.items():
            is_stored = self._members.methods(indices, column) != DEFLATED
            found.checksums += len(indices)
            for i, message in self._wrong_checksums(indices[is_stored], name, column):
                if (i, name) not in bad:
                    found.problems.append(Problem(sample=i, field=name, message=message))
        return found

    def _wrong_checksums(self, indices: IndexArray, field: str, column: int) -> list[tuple[int, str]]:
        """Files whose CRC-32 is not the one in the list of files; what cannot be read was told before."""
        offsets, sizes, _ = self._places(indices, field)
        try:
            base, starts = self.indexed.file.region(offsets, sizes)
        except (BadSpanError, FormatError):
            return []
        wanted, found = self._members.checksums(indices, column), _native.crc32_spans(base, starts, sizes)
        return [
            (int(indices[i]), f"CRC-32 {int(wanted[i]):#010x} expected, found {int(found[i]):#010x}")
            for i in np.flatnonzero(wanted != found).tolist()
        ]
