"""A tar as a dataset."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace import _native
from headrace.errors import FormatError
from headrace.formats.member_files.grouping import FileList, arrange_files
from headrace.formats.member_files.member_dataset import MemberDataset, open_fitting, read_spans
from headrace.formats.spans import IndexedFile, SpanFile, fill_options
from headrace.formats.spans.unpacked import compression_of_head, unpack
from headrace.progress import format_count
from headrace.storage import is_remote, records_ahead, release_behind

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Unpack

    import numpy.typing as npt

    from headrace.errors import PathLike
    from headrace.formats.spans import SampleIndex, SpanOptions
    from headrace.types import Progress, Report

__all__ = ["TarDataset", "open_tar"]

_log = logging.getLogger("headrace")
_HEADERS = 1024
_HEAD_BYTES = 8
_CUT = "It was probably cut short: fetch or write it again."
_DAMAGED = "It is damaged, or was made to do harm; make it again with tar, with names that stay inside of it."
_ADD_END = " If it is whole, add the end: truncate -s +1024 {path}"


def scan_files(
    file: SpanFile,
    progress: Progress | None = None,
    *,
    make_checksums: bool = False,
    headers: npt.NDArray[np.uint8] | None = None,
) -> FileList:
    """The regular files of a tar, found by its headers; summed up in the same pass, if wanted.

    Args:
        file: the tar.
        progress: called as the work advances.
        make_checksums: sum up the files.
        headers: the tar without the contents of its files; by default all of it.
    """
    mapped = file.mapped if headers is None else headers
    scanner, released, count = _native.TarScanner(mapped, make_checksums), 0, 0
    try:
        while scanner.advance(most := records_ahead(count, scanner.position, _HEADERS)):
            count += most
            released = release_behind(mapped, released, scanner.position)
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
    checksums = scanner.checksums if make_checksums else None
    return FileList(
        path=file.path, names=scanner.names, offsets=scanner.offsets, sizes=scanner.sizes, checksums=checksums
    )


def _failure(file: SpanFile, error: _native.NativeError, name: bytes) -> FormatError:
    after = f" (the last name that was read is {name.decode(errors='replace')!r})" if name else ""
    is_cut = error.code == "truncated"
    fix = _CUT if is_cut else _DAMAGED
    if is_cut and not file.is_unpacked and not is_remote(file.path):
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
    make_checksums: bool = False,
) -> SampleIndex:
    files = scan_files(file, progress, make_checksums=make_checksums)
    return arrange_files(files, group=group, as_bytes=as_bytes, columns=columns).index


def open_tar(
    path: PathLike,
    *,
    group: bool | None = None,
    as_bytes: bool = False,
    columns: Sequence[str] = (),
    make_checksums: bool = False,
    max_unpacked_bytes: int | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> IndexedFile:
    """A tar and where its samples are; a compressed one is unpacked. Options are those of IndexedFile."""
    scan = partial(_scan, group=group, as_bytes=as_bytes, columns=columns, make_checksums=make_checksums)
    file = SpanFile(path, cold=options.pop("cold", None))
    kind = compression_of_head(file.head(_HEAD_BYTES))
    if kind is None:
        return IndexedFile(path, format_name="tar", scan=scan, progress=progress, file=file, **options)
    file.close()
    options |= {"keep_index": False}
    file = unpack(path, kind, max_bytes=max_unpacked_bytes, progress=progress)
    return IndexedFile(path, format_name="tar", scan=scan, progress=progress, file=file, **options)


class TarDataset(MemberDataset):
    """A tar of samples: WebDataset's, with several files for each, or of plain files.

    Args:
        path: the tar; a compressed one (gzip, bzip2, xz, Zstandard) is unpacked into a temporary file first.
        group: True: files whose names are the same up to the first dot are one sample, with a field for each ending.
            False: each file is a sample; if there are pictures, only they are. By default what the names suggest.
        max_unpacked_bytes: refuse what unpacks to more; by default 1 GiB, or 200 times the file.
        make_checksums: sum up all files in the pass that finds them, for a new annex.
        progress: called while the files are searched for.
        **options: see ``SpanOptions``; ``decode="bytes"`` makes every file a sample of its bytes.

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
        max_unpacked_bytes: int | None = None,
        make_checksums: bool = False,
        progress: Progress | None = None,
        **options: Unpack[SpanOptions],
    ) -> None:
        known = fill_options(options, group=group, max_unpacked_bytes=max_unpacked_bytes)
        open_indexed = partial(open_tar, make_checksums=make_checksums, progress=progress)
        indexed = open_fitting(open_indexed, path, known)
        super().__init__(indexed, known, partial(read_spans, indexed))

    def verify(self, *, decode: bool = False, workers: int | None = None, progress: Progress | None = None) -> Report:
        """Check all headers, and every checksum that there is; with ``decode`` also that every value decodes."""
        report = super().verify(decode=decode, workers=workers, progress=progress)
        return self._with_problem(report, self._header_problem())

    def _header_problem(self) -> str | None:
        """What is wrong with the tar itself, or with an annex that says where other bytes are."""
        file, index = self.indexed.file, self.indexed.index
        try:
            files = scan_files(file, headers=file.frame_around(index.offsets, index.sizes))
        except FormatError as error:
            return str(error)
        known = np.rec.fromarrays([files.offsets, files.sizes])
        told = np.rec.fromarrays([index.offsets.reshape(-1), index.sizes.reshape(-1)])
        if np.isin(told, known).all():
            return None
        return f"{self.path}.annex says that files are where none are; make a new one with headrace index --fresh"
