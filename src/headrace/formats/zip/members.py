"""The files of a zip: where they are, how they are compressed, what they should be."""

from __future__ import annotations

import logging
import zlib
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from headrace import _native
from headrace.errors import FormatError
from headrace.formats.member_files.grouping import FileList, Samples, arrange_files
from headrace.formats.spans import IndexedFile
from headrace.formats.spans.span_file import BadSpanError
from headrace.progress import format_count

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.errors import PathLike
    from headrace.formats.spans import SampleIndex, SpanFile
    from headrace.types import IndexArray, Progress

__all__ = ["DEFLATED", "ZipMembers", "open_zip"]

_log = logging.getLogger("headrace")
DEFLATED = 8
_FREE_BYTES = 1 << 30
_MAX_RATIO = 200
_FIXES = {
    "truncated": "It was probably cut short: fetch it again.",
    "unsupported": "Unpack it with another program, and pack the files again without that.",
}


def _scan_files(
    file: SpanFile, headers: npt.NDArray[np.uint8], max_unpacked_bytes: int | None
) -> tuple[_native.ZipFiles, FileList]:
    files = _native.ZipFiles()
    try:
        files.scan(headers)
    except _native.NativeError as error:
        file.check()
        name = f"{files.failed.decode(errors='replace')}: " if files.failed else ""
        offset = error.offset if error.offset >= 0 else None
        fix = _FIXES.get(error.code, "")
        raise FormatError(file.path, offset=offset, problem=name + error.detail, fix=fix) from None
    limit = max(_FREE_BYTES, _MAX_RATIO * file.size_bytes) if max_unpacked_bytes is None else max_unpacked_bytes
    if sum(files.full_sizes.tolist()) > limit:
        problem = f"the contents take more than {format_count(limit, 'byte')}, the limit for it"
        raise FormatError(file.path, problem=problem, fix="If you trust it, raise the limit (max_unpacked_bytes).")
    if files.special:
        _log.warning("%s: %s left out", file.path, format_count(files.special, "link or device"))
    return files, FileList(path=file.path, names=files.names, offsets=files.offsets, sizes=files.sizes)


def _arranged(
    file: SpanFile,
    headers: npt.NDArray[np.uint8],
    *,
    group: bool | None,
    as_bytes: bool,
    columns: Sequence[str],
    max_unpacked_bytes: int | None,
) -> tuple[_native.ZipFiles, Samples]:
    """Its files and samples; ``headers`` is the zip, which need not have the contents of its files."""
    files, listed = _scan_files(file, headers, max_unpacked_bytes)
    return files, arrange_files(listed, group=group, as_bytes=as_bytes, columns=columns)


def _scan(file: SpanFile, progress: Progress | None, **about: Any) -> SampleIndex:
    files, samples = _arranged(file, file.mapped, **about)
    found = samples.index
    is_packed = bool((files.methods[samples.numbers] == DEFLATED).any())
    facts = {**found.facts, "packed": is_packed}
    return replace(found, facts=facts)


def open_zip(
    path: PathLike,
    *,
    group: bool | None = None,
    as_bytes: bool = False,
    columns: Sequence[str] = (),
    max_unpacked_bytes: int | None = None,
    **options: Any,
) -> IndexedFile:
    """A zip and where its samples are. Options are those of IndexedFile."""
    scan = partial(_scan, group=group, as_bytes=as_bytes, columns=columns, max_unpacked_bytes=max_unpacked_bytes)
    return IndexedFile(path, format_name="zip", scan=scan, **options)


class ZipMembers:
    """What the list of files says about every value, samples x columns; it is read when it is needed.

    Args:
        indexed: the zip.
        max_unpacked_bytes: see ``ZipDataset``.
    """

    def __init__(self, indexed: IndexedFile, *, max_unpacked_bytes: int | None) -> None:
        self._indexed, self._max_bytes = indexed, max_unpacked_bytes
        self.is_packed = bool(indexed.index.facts.get("packed"))

    @cached_property
    def _tables(self) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint32], npt.NDArray[np.uint8]]:
        index = self._indexed.index
        group, as_bytes = index.facts.get("group") is not False, bool(index.facts.get("bytes"))
        about: dict[str, Any] = {"group": group, "as_bytes": as_bytes, "max_unpacked_bytes": self._max_bytes}
        file = self._indexed.file
        files, samples = _arranged(file, file.frame_around(index.offsets, index.sizes), columns=index.columns, **about)
        if not np.array_equal(samples.index.offsets, index.offsets):
            raise FormatError(
                self._indexed.file.path,
                problem="the annex says that files are elsewhere than the zip itself says",
                fix=f"Make a new one with: headrace index --fresh {self._indexed.file.path}",
            )
        numbers = samples.numbers
        return files.full_sizes[numbers], files.checksums[numbers], files.methods[numbers]

    def full_sizes(self, indices: IndexArray, column: int) -> npt.NDArray[np.uint64]:
        """Bytes of files when they are unpacked."""
        found: npt.NDArray[np.uint64] = self._tables[0][indices, column]
        return found

    def checksums(self, indices: IndexArray, column: int) -> npt.NDArray[np.uint32]:
        """CRC-32 of files when they are unpacked."""
        found: npt.NDArray[np.uint32] = self._tables[1][indices, column]
        return found

    def methods(self, indices: IndexArray, column: int) -> npt.NDArray[np.uint8]:
        """How files are compressed: 0 or DEFLATED."""
        found: npt.NDArray[np.uint8] = self._tables[2][indices, column]
        return found

    def unpacked(self, indices: IndexArray, column: int, stored: Sequence[bytes]) -> list[bytes]:
        """Files from what is stored of them; BadSpanError names a bad one."""
        if not self.is_packed:
            return list(stored)
        sizes, checksums = self.full_sizes(indices, column).tolist(), self.checksums(indices, column).tolist()
        methods = self.methods(indices, column).tolist()
        return [
            _inflate(i, data, size, checksum) if method == DEFLATED else data
            for i, (data, size, checksum, method) in enumerate(zip(stored, sizes, checksums, methods, strict=True))
        ]


def _inflate(position: int, data: bytes, size: int, checksum: int) -> bytes:
    inflater = zlib.decompressobj(-zlib.MAX_WBITS)
    try:
        full = inflater.decompress(data, size + 1)
    except zlib.error as error:
        raise BadSpanError(position, f"it cannot be unpacked ({error})") from None
    if len(full) != size or not (inflater.eof or (size == 0 and not full)):
        raise BadSpanError(position, f"{format_count(size, 'byte')} should come out of it, and it has more, or fewer")
    found = _native.crc32(full)
    if found != checksum:
        raise BadSpanError(position, f"checksum {checksum:#010x} expected, found {found:#010x}")
    return full
