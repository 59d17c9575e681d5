"""What takes entries: an archive, a folder, a tar or a zip. It is complete, or nothing of it is left."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, TypeAlias

from headrace.errors import EntryExistsError
from headrace.formats.open import find_format
from headrace.transfer.containers import STREAM_KINDS, kind_of
from headrace.transfer.entry import Entry, content_of
from headrace.transfer.extract import FolderSink
from headrace.transfer.tar import TarSink
from headrace.transfer.targets import open_target
from headrace.transfer.zip import ZipSink

if TYPE_CHECKING:
    from typing import BinaryIO

    from headrace.formats.barecat.archive import Archive
    from headrace.formats.metadata import Metadata
    from headrace.formats.report import Transfer

__all__ = ["ArchiveSink", "NoSink", "Sink", "open_sink"]

_PIECE = 1 << 20


def open_sink(
    target: str | BinaryIO,
    *,
    kind: str | None = None,
    shard_size: int | None = None,
    exact_times: bool = False,
    force: bool = False,
) -> Sink:
    """Make what entries go to.

    Args:
        target: a path, or a stream for a tar or zip.
        kind: what it will be; by default what the ending of the path says.
        shard_size: limit of the shards of a .barecat.
        exact_times: keep fractions of seconds in a tar.
        force: replace what is there.
    """
    if kind is None:
        if not isinstance(target, str):
            raise ValueError("a stream has no ending that says what it is; give a kind (--to), for example tar.gz")
        kind = kind_of(target)
    if isinstance(target, str):
        if kind != "folder" and os.path.exists(target):
            if not os.path.isfile(target):
                raise ValueError(f"{target} is not a file and is not replaced; for standard output write - (with --to)")
            if not force:
                raise FileExistsError(f"{target} exists; give --force to replace it")
        if kind == "archive":
            return _NewArchiveSink(target, shard_size)
        if kind == "folder":
            return FolderSink(target, force=force)
    elif kind not in STREAM_KINDS:
        raise ValueError(f"{kind} is more than one file and cannot go into a stream; write a tar or zip (--to)")
    opened = open_target(target)
    return ZipSink(opened) if kind == "zip" else TarSink(opened, kind, has_exact_times=exact_times)


class ArchiveSink:
    """Adds to an archive that is open for writing.

    Args:
        archive: what takes the entries.
        prefix: a directory that everything goes into.
        ignore_duplicates: leave out files that are there already; otherwise that is an error.
        replace: write over files that are there already.
    """

    def __init__(
        self, archive: Archive, *, prefix: str = "", ignore_duplicates: bool = False, replace: bool = False
    ) -> None:
        self._archive, self._ignore_duplicates, self._replace = archive, ignore_duplicates, replace
        self._before = f"{prefix.strip('/')}/" if prefix.strip("/") else ""
        self._times: dict[str, Metadata] = {}

    def put(self, entry: Entry) -> None:
        """Store one."""
        name = self._before + entry.name
        if entry.is_dir:
            self._archive.mkdir(name, metadata=entry.about, exist_ok=True)
            self._times[name] = entry.about
        elif entry.size <= _PIECE:
            self._archive.add(name, content_of(entry), metadata=entry.about, replace=self._replace)
        else:
            with entry.open() as file:
                self._archive.add(name, file, size=entry.size, metadata=entry.about, replace=self._replace)

    def put_counted(self, entry: Entry, result: Transfer) -> None:
        """Store one, and count it or say that it was there already."""
        try:
            self.put(entry)
        except EntryExistsError:
            if entry.is_dir or not self._ignore_duplicates:
                raise
            result.skipped.append(f"{self._before}{entry.name}: exists already")
            return
        result.dirs += entry.is_dir
        result.files += not entry.is_dir
        result.size_bytes += entry.size

    def finish(self) -> None:
        """All were stored."""
        for name, about in self._times.items():  # adding files has touched them
            self._archive.set_metadata(name, about)


class _NewArchiveSink:
    def __init__(self, path: str, shard_size: int | None) -> None:
        new_archive = find_format(path, must_exist=False).new_archive
        if new_archive is None:
            raise ValueError(f"{path}: archives of this format can only be read")
        self._stack = contextlib.ExitStack()
        self._sink = ArchiveSink(self._stack.enter_context(new_archive(path, shard_size=shard_size)))
        self.put = self._sink.put

    def finish(self) -> None:
        self._sink.finish()
        self._stack.close()

    def abort(self, error: BaseException | None = None) -> None:
        cause = error or InterruptedError("given up")
        self._stack.__exit__(type(cause), cause, cause.__traceback__)


class NoSink:
    """Takes entries in a dry run, and does nothing with them."""

    def put(self, entry: Entry) -> None:
        """Take one."""

    def finish(self) -> None:
        """All were taken."""

    def abort(self, error: BaseException | None = None) -> None:
        """Something went wrong."""


Sink: TypeAlias = TarSink | ZipSink | FolderSink | _NewArchiveSink
"""Takes entries by ``put``; in the end ``finish`` or ``abort`` is called, whose error may then say the final name."""
