"""A tar as a dataset."""

from __future__ import annotations

import logging
import os
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace import _native
from headrace.errors import FormatError
from headrace.formats.member_files.grouping import FileList, arrange_files
from headrace.formats.member_files.member_dataset import MemberDataset, open_fitting, read_spans
from headrace.formats.spans import IndexedFile
from headrace.formats.spans.unpacked import compression_of, unpack
from headrace.progress import format_count
from headrace.storage import release_behind

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from headrace.errors import PathLike
    from headrace.formats.decodes import Decode
    from headrace.formats.spans import SampleIndex, SpanFile
    from headrace.types import Field, Progress, Report

__all__ = ["TarDataset", "open_tar"]

_log = logging.getLogger("headrace")
_HEADERS = 1024
_CUT = "It was probably cut short: fetch or write it again."
_DAMAGED = "It is damaged, or was made to do harm; make it again with tar, with names that stay inside of it."
_ADD_END = " If it is whole, add the end: truncate -s +1024 {path}"


def scan_files(file: SpanFile, progress: Progress | None = None) -> FileList:
    """The regular files of a tar, found by its headers."""
    scanner, released = _native.TarScanner(file.mapped), 0
    try:
        while scanner.advance(_HEADERS):
            released = release_behind(file.mapped, released, scanner.position)
            if progress is not None:
                progress(0, None, scanner.position)
    except _native.NativeError as error:
        file.check()
        raise _failure(file, error, scanner.name) from None
    notes = [
        f"{format_count(count, 'member')} left out, {reason}, such as {name.decode(errors='replace')}"
        for reason, count, name in scanner.notes
    ]
    if notes:
        _log.warning("%s: %s", file.path, "; ".join(notes))
    return FileList(path=file.path, names=scanner.names, offsets=scanner.offsets, sizes=scanner.sizes)


def _failure(file: SpanFile, error: _native.NativeError, name: bytes) -> FormatError:
    after = f" (the last name that was read is {name.decode(errors='replace')!r})" if name else ""
    is_cut = error.code == "truncated"
    fix = _CUT if is_cut else _DAMAGED
    if is_cut and compression_of(file.path) is None:
        fix += _ADD_END.format(path=file.path)
    offset = error.offset if error.offset >= 0 else None
    return FormatError(file.path, offset=offset, problem=error.detail + after, fix=fix)


def _scan(
    file: SpanFile,
    progress: Progress | None,
    *,
    group: bool | None = None,
    as_bytes: bool = False,
    columns: Sequence[str] = (),
) -> SampleIndex:
    return arrange_files(scan_files(file, progress), group=group, as_bytes=as_bytes, columns=columns).index


def open_tar(
    path: PathLike,
    *,
    group: bool | None = None,
    as_bytes: bool = False,
    columns: Sequence[str] = (),
    max_unpacked_bytes: int | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> IndexedFile:
    """A tar and where its samples are; a compressed one is unpacked. Options are those of IndexedFile."""
    scan = partial(_scan, group=group, as_bytes=as_bytes, columns=columns)
    kind = compression_of(os.fspath(path))
    if kind is None:
        return IndexedFile(path, format_name="tar", scan=scan, progress=progress, **options)
    options |= {"keep_index": False}
    file = unpack(path, kind, max_bytes=max_unpacked_bytes, progress=progress)
    return IndexedFile(path, format_name="tar", scan=scan, progress=progress, file=file, **options)


class TarDataset(MemberDataset):
    """A tar of samples: WebDataset's, with several files for each, or of plain files.

    Args:
        path: the tar; a compressed one (gzip, bzip2, xz, Zstandard) is unpacked into a temporary file first.
        group: True: files whose names are the same up to the first dot are one sample, with a field for each ending.
            False: each file is a sample; if there are pictures, only they are. By default what the names suggest.
        fields: name to Field, in place of what was found.
        decode: what bytes are, of all fields of bytes or by name. ``"bytes"`` makes every file a sample of its bytes.
        allow_pickle: needed for ``decode="pickle"``.
        checksums: check everything that is read, where the annex has checksums.
        annex: False: do not look for an annex, and keep none.
        keep_index: keep what was found beside a large file.
        cold: how files are read that are not in the page cache, see ``SpanFile``.
        follow_links: also read an annex that is a symbolic link.
        max_unpacked_bytes: refuse what unpacks to more; by default 1 GiB, or 200 times the file.

    Example:
        >>> import os, tempfile, headrace
        >>> path = os.path.join(tempfile.mkdtemp(), "x.tar")
        >>> headrace.write(path, [("one", 1), ("two", 2)], fields={"txt": headrace.Text(), "cls": headrace.Int()})
        >>> TarDataset(path)[1]
        Sample(txt='two', cls=2)
    """

    def __init__(
        self,
        path: PathLike,
        *,
        group: bool | None = None,
        fields: Mapping[str, Field] | None = None,
        decode: Decode | Mapping[str, Decode] | None = None,
        allow_pickle: bool = False,
        checksums: bool = True,
        annex: bool = True,
        keep_index: bool = True,
        cold: bool | None = None,
        follow_links: bool = False,
        max_unpacked_bytes: int | None = None,
    ) -> None:
        options: dict[str, Any] = {"group": group, "fields": fields, "decode": decode, "allow_pickle": allow_pickle}
        options |= {"checksums": checksums, "annex": annex, "keep_index": keep_index, "cold": cold}
        options |= {"follow_links": follow_links, "max_unpacked_bytes": max_unpacked_bytes}
        indexed = open_fitting(open_tar, path, options)
        super().__init__(indexed, options, partial(read_spans, indexed))

    def verify(self, *, decode: bool = False, workers: int | None = None, progress: Progress | None = None) -> Report:
        """Check all headers, and every checksum that there is; with ``decode`` also that every value decodes."""
        report = super().verify(decode=decode, workers=workers, progress=progress)
        return self._with_problem(report, self._header_problem())

    def _header_problem(self) -> str | None:
        """What is wrong with the tar itself, or with an annex that says where other bytes are."""
        try:
            files = scan_files(self.indexed.file)
        except FormatError as error:
            return str(error)
        known = np.rec.fromarrays([files.offsets, files.sizes])
        told = np.rec.fromarrays([self.indexed.index.offsets.reshape(-1), self.indexed.index.sizes.reshape(-1)])
        if np.isin(told, known).all():
            return None
        return f"{self.path}.annex says that files are where none are; make a new one with headrace index --fresh"
