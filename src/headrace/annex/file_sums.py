"""The section that binds an annex to files which its dataset names, such as the pictures of a manifest.

``files``      columns u16 (fields whose values are files), reserved u16, names_size u32; the names of the fields as
               JSON, a list, with spaces up to a multiple of 8; then num_samples x columns sizes u64, then as many
               CRC32C u32.
"""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from headrace.progress import format_count

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.annex.container import Annex
    from headrace.types import Buffer

__all__ = ["FILES", "FileSums"]

FILES = "files"
_HEAD = struct.Struct("<HHI")


@dataclass(frozen=True, slots=True, eq=False)
class FileSums:
    """Size and CRC-32C of every file.

    Attributes:
        fields: names of the fields, in the order of the columns.
        sizes: bytes, samples x fields.
        checksums: CRC-32C, samples x fields.
    """

    fields: tuple[str, ...]
    sizes: npt.NDArray[np.uint64]
    checksums: npt.NDArray[np.uint32]

    def section(self) -> Iterator[Buffer]:
        """As the bytes of ``files``."""
        names = json.dumps(self.fields).encode("ascii")
        names += b" " * (-len(names) % 8)
        yield _HEAD.pack(len(self.fields), 0, len(names)) + names
        yield np.ascontiguousarray(self.sizes, "<u8").reshape(-1).view(np.uint8)
        yield np.ascontiguousarray(self.checksums, "<u4").reshape(-1).view(np.uint8)

    @classmethod
    def read(cls, annex: Annex) -> FileSums | None:
        """What ``section`` made, or None."""
        data = annex.section(FILES)
        if data is None:
            return None
        columns, _, names_size = _HEAD.unpack(data[: _HEAD.size]) if len(data) >= _HEAD.size else (0, 0, 0)
        count = annex.num_samples * columns
        if not columns or len(data) != _HEAD.size + names_size + 12 * count or names_size % 8:
            raise annex.fail(FILES, f"has {format_count(len(data), 'byte')}, which is not what its head says")
        try:
            names = json.loads(data[_HEAD.size : _HEAD.size + names_size].tobytes())
        except (ValueError, RecursionError) as error:
            raise annex.fail(FILES, f"does not name its fields ({error})") from None
        is_right = isinstance(names, list) and all(isinstance(name, str) for name in names)
        if not is_right or len({*names}) != columns:
            raise annex.fail(FILES, f"should name {format_count(columns, 'field')}")
        tables = data[_HEAD.size + names_size :]
        sizes = np.require(tables[: 8 * count].view("<u8"), requirements="A").reshape(-1, columns)
        sums = np.require(tables[8 * count :].view("<u4"), requirements="A").reshape(-1, columns)
        return cls(tuple(names), sizes, sums)
