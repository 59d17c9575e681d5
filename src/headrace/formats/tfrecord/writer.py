"""Writes TFRecord files of tf.train.Examples, with their annex."""

from __future__ import annotations

import gzip
import os
from typing import TYPE_CHECKING, Any

from headrace import _native
from headrace.annex import new_side_path
from headrace.formats.row_writer import RowWriter
from headrace.formats.spans import NewAnnex
from headrace.formats.tfrecord.dataset import TfrecordDataset
from headrace.formats.tfrecord.example import encode_example, encode_feature, key_of
from headrace.storage import AtomicFile

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from headrace.errors import PathLike
    from headrace.formats.row_writer import Row
    from headrace.types import Field

__all__ = ["TfrecordWriter"]

_HEAD, _FRAME = 12, 16


class TfrecordWriter(RowWriter):
    """Samples as tf.train.Examples.

    Args:
        path: the new file; if it ends in ``.gz``, it is compressed.
        fields: name to field. Int and int64 arrays become ints, Float and float32 arrays floats of 32 bits (a Float is
            rounded), everything else bytes: pictures as JPEG or PNG, texts, JSON, other arrays as numpy saves them.
        length: not needed.
        class_names: field name to names of its classes, for the annex.
        metadata: anything JSON can hold, for the annex.
        annex: write one: places, names, checksums, and what the fields are, so that they are read back as they were.
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
        super().__init__(fields, encode_feature)
        self._annex = NewAnnex(is_wanted=annex, class_names=class_names, metadata=metadata, jpeg_index=jpeg_index)
        self._annex.check(self.fields)
        self._path = os.fspath(path)
        self._keys = [key_of(name) for name in self.fields]
        self._names: list[str] = []
        if annex:
            new_side_path(self._path)  # an error now, not after the work
        self._file = AtomicFile(self._path)
        self._packed: gzip.GzipFile | None = None
        if self._path.lower().endswith(".gz"):
            self._stream = self._file.stream()
            self._packed = gzip.GzipFile("", "wb", compresslevel=6, fileobj=self._stream, mtime=0)

    def _put(self, rows: list[Row], names: Sequence[str] | None) -> None:
        if names is not None and not self._annex.is_wanted:
            raise ValueError("names are kept in the annex; do not pass annex=False")
        self._names += names or ()
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
        self._file.commit()
        self._annex.write(self._path, self.fields, self._open, self._names if self._has_names else None)

    def _open(self) -> TfrecordDataset:
        return TfrecordDataset(self._path, fields=self.fields if len(self) else None, annex=False, make_checksums=True)

    def _discard(self) -> None:
        self._file.abort()
