"""A TFRecord file as a dataset: records, or the features of the tf.train.Examples in them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from headrace import _native
from headrace.codecs.image import find_native_spans
from headrace.errors import CorruptSampleError
from headrace.formats.contract import BaseDataset, join_images
from headrace.formats.report import Found
from headrace.formats.spans import IndexedFile, SpanDataset, SpanFile, fill_options, unpack
from headrace.formats.spans.span_file import BadSpanError
from headrace.formats.tfrecord.packing import packing_of
from headrace.formats.tfrecord.record_parts import CHECKSUM_BYTES, RecordParts
from headrace.formats.tfrecord.scan import RECORD, scan
from headrace.formats.tfrecord.schema import choose_schema, read_features
from headrace.formats.tfrecord.stored import values_of
from headrace.types import ImageSpans, Problem, Ragged

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Unpack

    from headrace.errors import PathLike
    from headrace.formats.spans import SpanOptions
    from headrace.types import Field, IndexArray, Progress, Source

__all__ = ["TfrecordDataset"]

Spans = npt.NDArray[np.uint64]


class TfrecordDataset(SpanDataset):
    """Records of a TFRecord file: the features of tf.train.Examples by name, or ``data`` where they are none.

    A feature with one value in every sample is an Int, a Float or, of bytes, whatever its first values look like:
    Image, Text, an array that numpy has saved, or Bytes. Numbers that are as many in every sample are an NDArray. All
    others are lists (Json). Of a SequenceExample the context gives features, too, and each of its lists a list with
    an entry for each step.

    Args:
        path: the file, plain or compressed by gzip or zlib; that is unpacked once to a temporary file.
        examples: whether records are Examples; by default that is found out.
        max_unpacked_bytes: refuse what unpacks to more; by default 1 GiB, or 200 times the file.
        make_checksums: compare all records and sum up their features in the pass that finds them, for a new annex.
        progress: called while the records are searched for.
        **options: see ``SpanOptions``.
    """

    def __init__(
        self,
        path: PathLike,
        *,
        examples: bool | None = None,
        max_unpacked_bytes: int | None = None,
        make_checksums: bool = False,
        progress: Progress | None = None,
        **options: Unpack[SpanOptions],
    ) -> None:
        known = fill_options(options, examples=examples, max_unpacked_bytes=max_unpacked_bytes)
        file = SpanFile(path, cold=known["cold"])
        if (kind := packing_of(file)) is not None:
            file.close()
            file = unpack(path, kind, max_bytes=max_unpacked_bytes, progress=progress)
        indexed = IndexedFile(
            path,
            format_name="tfrecord",
            scan=partial(scan, examples=examples, make_checksums=make_checksums),
            keep_index=known["keep_index"] and examples is None,
            annex=known["annex"],
            follow_links=known["follow_links"],
            progress=progress,
            file=file,
        )
        self._features = read_features(indexed, examples)
        self._record_column = indexed.index.columns.index(RECORD)
        self._is_checked = np.zeros(len(indexed.index), bool)
        wanted = {name: known[name] for name in ("fields", "decode", "allow_pickle")}
        schema = choose_schema(indexed, self._features, **wanted)
        super().__init__(
            indexed,
            schema=schema,
            options=known,
            columns={"data": RECORD} if "data" not in indexed.index.columns else None,
            class_names=_classes(indexed, schema),
        )

    @property
    def has_checksums(self) -> bool:
        """Every record has one."""
        return True

    # Reading

    def _spans(self, indices: IndexArray, field: str) -> tuple[npt.NDArray[np.uint8], Spans, Spans]:
        """Memory, and where in it the stored bytes of values are; what has a checksum is compared with it."""
        offsets, sizes, checksums = self._places(indices, field)
        file = self.indexed.file
        if checksums is not None:
            base, starts = file.region(offsets, sizes)
            wrong = _native.crc32c_spans(base, starts, sizes) != checksums
            if wrong.any():
                raise BadSpanError(int(np.argmax(wrong)), "its checksum is another one than the annex has")
            return base, starts, sizes
        if not self._options["checksums"]:
            return *file.region(offsets, sizes), sizes
        records = self._records(indices, offsets, sizes)
        is_due = records.is_large | ~self._is_checked[indices]
        if not is_due.any():
            return *file.region(offsets, sizes), sizes
        base, starts = records.region(file, is_due)
        self._compare(base, starts, records.sizes, np.flatnonzero(is_due))
        self._is_checked[indices] = True
        return base, starts + np.where(is_due, records.inside, np.uint64(0)), sizes

    def _records(self, indices: IndexArray, offsets: Spans, sizes: Spans) -> RecordParts:
        """The records in which values lie."""
        index, column = self.indexed.index, self._record_column
        parts = RecordParts(
            offsets=np.ascontiguousarray(index.offsets[indices, column]),
            sizes=np.ascontiguousarray(index.sizes[indices, column]),
            part_offsets=offsets,
            part_sizes=sizes,
        )
        if parts.is_outside.any():
            position = int(np.argmax(parts.is_outside))
            base, starts = self._records_here(parts.offsets, parts.sizes, np.array([position]))
            self._compare(base, starts, parts.sizes, np.array([position]))
            raise BadSpanError(position, "its place lies outside of its record")
        return parts

    def _records_here(self, offsets: Spans, sizes: Spans, wanted: IndexArray) -> tuple[npt.NDArray[np.uint8], Spans]:
        """Memory that holds some of the records with their checksums, and where in it; beyond it what is nowhere."""
        file = self.indexed.file
        if file.is_local:
            return file.mapped, offsets
        is_wanted = np.zeros(len(offsets), bool)
        is_wanted[wanted] = file.is_inside(offsets[wanted], sizes[wanted])
        is_wanted &= sizes <= np.uint64(file.size_bytes)  # so that the next sum is right
        with_sums = sizes + CHECKSUM_BYTES
        is_wanted &= file.is_inside(offsets, with_sums)
        none = np.uint64(0)
        base, starts = file.region(np.where(is_wanted, offsets, none), np.where(is_wanted, with_sums, none))
        return base, np.where(is_wanted, starts, np.uint64(len(base)))

    def _wanted(self, indices: IndexArray, field: str) -> tuple[Spans, Spans] | None:
        if self._has_plain_places or field not in self._columns:
            return super()._wanted(indices, field)
        offsets, sizes, _ = self._places(indices, field)
        try:
            records = self._records(indices, offsets, sizes)
        except BadSpanError:  # reading it tells
            return None
        return records.spans(records.is_large | ~self._is_checked[indices])

    def _compare(self, base: npt.NDArray[np.uint8], starts: Spans, sizes: Spans, due: IndexArray) -> None:
        """Compare some records with their checksums."""
        try:
            _native.check_tfrecords(base, starts[due], sizes[due])
        except _native.NativeError as error:
            raise self._damaged(error, int(due[max(error.offset, 0)])) from None

    def _damaged(self, error: _native.NativeError, position: int) -> BadSpanError:
        self.check_file()
        return BadSpanError(position, f"its record is damaged: {error.detail}")

    def _stored(self, indices: IndexArray, field: str) -> Sequence[Any] | npt.NDArray[Any]:
        self._check_field(field)
        if not len(indices):
            return []
        feature = self._features[field]
        try:
            if feature.is_bytes and self._has_plain_places:
                return self.indexed.file.read(*self._places(indices, field))
            if feature.is_bytes:
                return self._gather(indices, field)
            values = values_of(self._spans(indices, field), feature, self._schema[field])
        except BadSpanError as error:
            self.check_file()
            self._fail(indices, field, error)
        self.check_file()
        return values

    @property
    def _has_plain_places(self) -> bool:
        """Values have checksums of their own, or are not to be compared with any."""
        return self._checksums is not None or not self._options["checksums"]

    def _gather(self, indices: IndexArray, field: str) -> list[bytes]:
        """Copies of byte strings; each record is compared and copied while it is in the CPU's cache."""
        offsets, sizes, _ = self._places(indices, field)
        records = self._records(indices, offsets, sizes)
        if not records.is_large.any():
            return _native.gather(*self._spans(indices, field))
        base, starts = records.region(self.indexed.file, None)
        try:
            values = _native.gather_tfrecords(base, starts, records.sizes, starts + records.inside, sizes)
        except _native.NativeError as error:
            raise self._damaged(error, max(error.offset, 0)) from None
        self._is_checked[indices] = True
        return values

    def read_ragged(self, indices: IndexArray, field: str, source: Source | None = None) -> Ragged:
        """Stored bytes of one field, one value after the other."""
        self._check_field(field)
        if not len(indices) or not self._features[field].is_bytes:
            return BaseDataset.read_ragged(self, indices, field)
        if self._has_plain_places:
            return super().read_ragged(indices, field, source)
        try:
            return self._gather_ragged(indices, field)
        except BadSpanError as error:
            self._fail(indices, field, error)

    def _gather_ragged(self, indices: IndexArray, field: str) -> Ragged:
        offsets, sizes, _ = self._places(indices, field)
        records = self._records(indices, offsets, sizes)
        base, starts = records.region(self.indexed.file, None)
        bounds = np.zeros(len(sizes) + 1, np.int64)
        np.cumsum(sizes, out=bounds[1:])
        out = np.empty(int(bounds[-1]), np.uint8)
        places = bounds[:-1].astype(np.uint64)
        try:
            _native.gather_tfrecords_into(base, starts, records.sizes, starts + records.inside, sizes, out, places)
        except _native.NativeError as error:
            raise self._damaged(error, max(error.offset, 0)) from None
        self.check_file()
        return Ragged(out, bounds)

    def image_spans(self, indices: IndexArray, field: str, source: Source | None = None) -> ImageSpans:
        """The undecoded bytes of pictures, where they are; with the tile indices of JPEGs where there are some."""
        if self._has_plain_places or not len(indices):
            return super().image_spans(indices, field, source)
        self._check_field(field)
        try:
            base, starts, sizes = self._spans(indices, field)
        except BadSpanError as error:
            self._fail(indices, field, error)
        modes, widths, heights = find_native_spans(base, starts, sizes)
        self.check_file()
        if not widths.all():  # something that the native core does not decode is among them
            return join_images(self.path, field, indices, self.read_bytes(indices, field))
        return ImageSpans(base, starts, sizes, modes, widths, heights)

    # Checking

    def _check(self, indices: IndexArray, decode: bool) -> Found:
        """Compare the checksum of each record; values only where there is more to check."""
        problems = self._bad_records(indices)
        bad = {problem.sample for problem in problems}
        good = np.array([i for i in indices.tolist() if i not in bad], np.int64)
        has_more = decode or self._checksums is not None
        found = super()._check(good, decode) if has_more and len(good) else Found()
        found.samples = len(indices)
        found.checksums += len(indices)
        found.size_bytes = int(self.indexed.index.sizes[indices, self._record_column].sum())
        found.problems += problems
        return found

    def _bad_records(self, indices: IndexArray) -> list[Problem]:
        index = self.indexed.index
        offsets = np.ascontiguousarray(index.offsets[indices, self._record_column])
        sizes = np.ascontiguousarray(index.sizes[indices, self._record_column])
        base, places = self._records_here(offsets, sizes, np.arange(len(indices)))
        problems = []
        start = 0
        while start < len(indices):
            try:
                _native.check_tfrecords(base, places[start:], sizes[start:])
                break
            except _native.NativeError as error:
                start += max(error.offset, 0)
                told = CorruptSampleError(
                    self.path, sample=int(indices[start]), offset=int(offsets[start]), problem=error.detail
                )
                problems.append(Problem(sample=int(indices[start]), field=None, message=str(told)))
                start += 1
        return problems


def _classes(indexed: IndexedFile, schema: Mapping[str, Field]) -> dict[str, Sequence[str]]:
    known = {} if indexed.description is None else indexed.description.class_names
    return {name: classes for name, classes in known.items() if name in schema}
