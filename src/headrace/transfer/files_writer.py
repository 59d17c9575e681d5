"""Samples as files into a tar, zip or folder."""

from __future__ import annotations

import io
from functools import partial
from typing import TYPE_CHECKING

from headrace.formats.metadata import Metadata
from headrace.formats.sample_files import SampleFiles, SampleFilesWriter
from headrace.transfer.entry import Entry

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import TracebackType

    from headrace.formats.report import Transfer
    from headrace.transfer.files_comparison import FileSums
    from headrace.transfer.sinks import Sink
    from headrace.types import Field

__all__ = ["FilesWriter", "files_per_sample"]


def files_per_sample(fields: Mapping[str, Field]) -> int:
    """How many files a sample becomes; ValueError where a field cannot become one."""
    return len(SampleFiles(fields, length=None, class_names=None).encoder.endings)


class FilesWriter(SampleFilesWriter):
    """Writes samples as files into a tar, zip or folder, with the names and endings that an archive would give them.

    Args:
        open_sink: makes what takes the files.
        fields: fields that have bytes, and at most one number: an Int field called ``label``.
        result: counts what was written.
        sums: takes the sizes and checksums of the files, if they are to be compared later.
        length: number of samples, if known.
        class_names: ``{"label": [...]}``, names of the directories.
    """

    def __init__(
        self,
        open_sink: Callable[[], Sink],
        fields: Mapping[str, Field],
        result: Transfer,
        sums: FileSums | None = None,
        *,
        length: int | None = None,
        class_names: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        super().__init__(fields, length=length, class_names=class_names)
        self._result, self._sums = result, sums
        self._names: dict[str, bool] = {}  # of what was written; True for directories
        self._sink = open_sink()

    def _put(self, path: str, data: bytes) -> None:
        self._make_dirs(path)
        if path in self._names:
            raise ValueError(f"two samples would both become {path}; leave the names out (names=False, --no-names)")
        self._names[path] = False
        entry = Entry(path, False, len(data), Metadata(), partial(io.BytesIO, data))
        self._sink.put(entry)
        if self._sums is not None:
            self._sums.add(entry)
        self._result.files += 1
        self._result.size_bytes += len(data)

    def _make_dirs(self, path: str) -> None:
        cut = path.find("/")
        while cut >= 0:
            directory = path[:cut]
            if directory not in self._names:
                self._names[directory] = True
                self._sink.put(Entry(directory, True, 0, Metadata()))
                self._result.dirs += 1
            elif not self._names[directory]:
                raise ValueError(f"{directory} would be a file, and a directory for {path}")
            cut = path.find("/", cut + 1)

    def _finish(self) -> None:
        self._sink.finish()

    def abort(self, error: BaseException | None = None) -> None:
        """Throw away what was written; a folder keeps what it has."""
        self._sink.abort(error)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
        else:
            self.abort(error)
