"""Writes TFRecord files of tf.train.Examples, with their annex."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING, Any

from headrace import _native
from headrace.formats.spans import SpanWriter
from headrace.formats.tfrecord.dataset import TfrecordDataset
from headrace.formats.tfrecord.example import encode_example, encode_feature, key_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Unpack

    from headrace.errors import PathLike
    from headrace.formats.row_writer import Row
    from headrace.formats.spans import AnnexOptions
    from headrace.types import Field

__all__ = ["TfrecordWriter"]

_HEAD, _FRAME = 12, 16


class TfrecordWriter(SpanWriter):
    """Samples as tf.train.Examples.

    Args:
        path: the new file; if it ends in ``.gz``, it is compressed.
        fields: name to field. Int and int64 arrays become ints, Float and float32 arrays floats of 32 bits (a Float is
            rounded), everything else bytes: pictures as JPEG or PNG, texts, JSON, other arrays as numpy saves them.
        length: not needed.
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
        self._keys = [key_of(name) for name in fields]
        super().__init__(path, fields, encode_feature, **annex)
        self._packed: gzip.GzipFile | None = None
        if self._path.lower().endswith(".gz"):
            self._stream = self._file.stream()
            self._packed = gzip.GzipFile("", "wb", compresslevel=6, fileobj=self._stream, mtime=0)

    def _put(self, rows: list[Row], names: Sequence[str] | None) -> None:
        self._note_names(names)
        records = [encode_example(self._keys, row) for row in rows]
        frames = memoryview(_native.frame_tfrecords(records))
        parts: list[Any] = []
        for i, record in enumerate(records):
            frame = frames[i * _FRAME : (i + 1) * _FRAME]
            parts += (frame[:_HEAD], record, frame[_HEAD:])
        if self._packed is None:
            self._file.write(parts)
        else:
            self._packed.write(b"".join(parts))

    def _finish(self) -> None:
        if self._packed is not None:
            self._packed.close()
            self._stream.close()
        super()._finish()

    def _open(self) -> TfrecordDataset:
        return TfrecordDataset(self._path, fields=self.fields if len(self) else None, annex=False, make_checksums=True)
