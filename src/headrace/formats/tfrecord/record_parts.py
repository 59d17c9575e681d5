"""Values as parts of the records that they lie in: the checksum of a record is of all of it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from headrace.formats.spans import SpanFile

__all__ = ["CHECKSUM_BYTES", "RecordParts"]

CHECKSUM_BYTES = np.uint64(4)
"""What follows the data of a record."""
_SMALL_SHARE = np.uint64(4)

Spans = npt.NDArray[np.uint64]


@dataclass(frozen=True, kw_only=True, eq=False)
class RecordParts:
    """Records, and a part of each; a part of no bytes may say that it is anywhere.

    Attributes:
        offsets: where the data of records begin in the file.
        sizes: bytes of their data.
        part_offsets: where the parts begin in the file.
        part_sizes: bytes of the parts.
    """

    offsets: Spans
    sizes: Spans
    part_offsets: Spans
    part_sizes: Spans

    @cached_property
    def inside(self) -> Spans:
        """Where in its record each part begins."""
        return np.where(self.part_sizes == 0, np.uint64(0), self.part_offsets - self.offsets)

    @cached_property
    def is_outside(self) -> npt.NDArray[np.bool_]:
        """A part does not lie in its record; those of records that could not be read are beyond any file."""
        room = self.sizes - np.minimum(self.inside, self.sizes)
        is_nowhere = self.part_offsets == np.iinfo(np.uint64).max
        is_outside: npt.NDArray[np.bool_] = is_nowhere | (self.inside > self.sizes) | (self.part_sizes > room)
        return is_outside

    @cached_property
    def is_large(self) -> npt.NDArray[np.bool_]:
        """A part is a good share of its record: to read all of the record costs little more."""
        return self.part_sizes > self.sizes // _SMALL_SHARE

    def region(self, file: SpanFile, is_whole: npt.NDArray[np.bool_] | None) -> tuple[npt.NDArray[np.uint8], Spans]:
        """Memory that holds records with their checksums, only parts where ``is_whole`` is not so; and where."""
        return file.region(*self.spans(is_whole))

    def spans(self, is_whole: npt.NDArray[np.bool_] | None) -> tuple[Spans, Spans]:
        """What ``region`` asks for."""
        sizes = self.sizes + CHECKSUM_BYTES
        if is_whole is None:
            return self.offsets, sizes
        return np.where(is_whole, self.offsets, self.part_offsets), np.where(is_whole, sizes, self.part_sizes)
