"""Writing a MessagePack stream of maps."""

from __future__ import annotations

import json
import struct
from typing import TYPE_CHECKING, Any

from headrace.fields import Bytes, Float, Image, Int, Json, NDArray, Text
from headrace.formats.msgpack.dataset import MsgpackDataset
from headrace.formats.msgpack.stream import empty_index
from headrace.formats.spans import SpanWriter
from headrace.formats.values import encode_value
from headrace.registry import require

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Unpack

    from headrace.errors import PathLike
    from headrace.formats.row_writer import Row
    from headrace.formats.spans import AnnexOptions
    from headrace.types import Field

__all__ = ["MAX_FIELDS", "MsgpackWriter"]

MAX_FIELDS = 1024
_MAX_NAME_BYTES = 4096
_HELD = (Int, Float, Text, Json, NDArray, Bytes, Image)
_NEED = "writing MessagePack"


class MsgpackWriter(SpanWriter):
    """Writes a map for each sample: numbers, texts and JSON values as they are, pictures and bytes as bin.

    Arrays are stored as bin, too, in the .npy format. Names of the samples, and which fields they are exactly, stand in
    the annex beside the file.

    Args:
        path: where the file goes; it appears when it is complete.
        fields: name to field, in order.
        length: number of samples, if known.
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
        if other := [name for name, field in fields.items() if not isinstance(field, _HELD)]:
            found, held = fields[other[0]].kind, ", ".join(kind.kind for kind in _HELD)
            raise ValueError(f"fields[{other[0]!r}] is of kind {found}, which cannot be stored; use {held}")
        if not 0 < len(fields) <= MAX_FIELDS:
            problem = f"a sample has 1 to {MAX_FIELDS} fields, got {len(fields)}"
            raise ValueError(f"{problem}; several values can be one Json()")
        if long := [name for name in fields if len(name.encode()) > _MAX_NAME_BYTES]:
            problem = f"the name of a field has at most {_MAX_NAME_BYTES} bytes, got {long[0][:40]!r}..."
            raise ValueError(f"{problem}; give it a shorter one")
        pack = require("msgpack", _NEED).packb
        self._keys = [pack(name) for name in fields]
        count = len(fields)
        self._head = bytes([0x80 | count]) if count < 16 else b"\xde" + struct.pack(">H", count)
        super().__init__(path, fields, pack_value, **annex)

    def _put(self, rows: list[Row], names: Sequence[str] | None) -> None:
        self._note_names(names)
        pieces: list[bytes] = []
        for row in rows:
            pieces.append(self._head)
            for key, value in zip(self._keys, row, strict=True):
                pieces += (key, value)
        self._file.write([b"".join(pieces)])

    def _open(self) -> MsgpackDataset:
        if len(self):
            return MsgpackDataset(self._file.path, fields=self.fields, annex=False)
        dataset = MsgpackDataset(self._file.path, annex=False)
        dataset.indexed.index = empty_index(tuple(self.fields))  # nothing in the file says what its columns are
        return dataset


def pack_value(field: Field, value: Any, index: int) -> bytes:
    """A value as MessagePack."""
    pack = require("msgpack", _NEED).packb
    if isinstance(field, Int | Float):
        return bytes(pack(field.encode(value, index).facts[0]))
    if isinstance(field, Text):
        field.encode(value, index)
        return bytes(pack(value))
    if isinstance(field, Json):
        return bytes(pack(json.loads((field.encode(value, index).payload or b"").removesuffix(b"\0"))))
    return bytes(pack(encode_value(field, value, index)[1]))
