"""What a task of a cluster does for a set of files: make a file of it, encode samples, or write what was encoded.

A task can be run twice, and at the same time as another run of itself: a file gets its name in one step, and its bytes
do not depend on who makes it. A process opens the source once and keeps it for the tasks that follow.
"""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from headrace.errors import BrokenPicturesError, FormatError
from headrace.formats.contract import BaseWriter
from headrace.formats.local_target import named_as_given
from headrace.formats.open import FORMATS
from headrace.formats.ray_tasks import fetch_shared
from headrace.formats.report import Transfer
from headrace.formats.shard_log import files_of, remove_shard
from headrace.formats.sharded_writer import ShardedChunk, ShardedWriter, ShardEncoder, ShardLimits, shard_creator
from headrace.progress import format_count
from headrace.storage import RemotePath
from headrace.transfer.comparison import Comparison

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from headrace.formats.contract import Format
    from headrace.transfer.samples import Selection
    from headrace.types import EncodedChunk, Encoder, Field, Writer

__all__ = ["EncodedRange", "ShardJob", "ShardMade", "encode_range", "local_place", "make_shard", "write_shard"]

_opened: dict[str, tuple[contextlib.ExitStack, Selection]] = {}


@dataclass(frozen=True, kw_only=True, slots=True)
class ShardJob:
    """A conversion into a set of files, for the processes that work on it.

    Args:
        key: of the job, another one for each.
        open_selection: opens what is to be written.
        source: fingerprint and number of samples that it must have.
        format: name of the target's.
        options: what its writer takes.
        encoder: of its writer.
        limits: when a file is full.
        path: of the set; of a URL each file is uploaded by the task that makes it.
        outcome: what an error says when a file is not what was to be written; None when no file is read again.
        is_logged: sizes and checksums of the files are wanted.
    """

    key: str
    open_selection: Callable[[contextlib.ExitStack], Selection]
    source: tuple[int, int]
    format: str
    options: dict[str, Any]
    encoder: Encoder[Any]
    limits: ShardLimits
    path: str
    outcome: str | None
    is_logged: bool

    @property
    def target(self) -> Format:
        """The format that is written."""
        return FORMATS.load(self.format)

    def selection(self) -> Selection:
        """What is to be written, opened once in a process."""
        if self.key not in _opened:
            for stack, _ in _opened.values():
                stack.close()
            _opened.clear()
            stack = contextlib.ExitStack()
            _opened[self.key] = stack, self._checked(self.open_selection(stack))
        return _opened[self.key][1]

    def _checked(self, selection: Selection) -> Selection:
        found = selection.fingerprint, len(selection.origin.sources())
        if found != self.source:
            raise FormatError(
                selection.origin.path,
                problem=f"it is another one here ({format_count(found[1], 'sample')}) than where the work was begun "
                f"({format_count(self.source[1], 'sample')})",
                fix="All nodes must see the same files under the same paths.",
            )
        return selection

    def writer(self, place: _OnePlace, number: int, done: int, length: int | None) -> Writer[Any]:
        """What writes one of the files."""
        fields = self.selection().fields
        create = shard_creator(self.target, fields, self.options)
        return ShardedWriter(place, create, fields, limits=self.limits, length=length, first_shard=number, done=done)

    def made(self, place: _OnePlace, path: str, number: int, first: int, samples: int) -> ShardMade:
        """Look at a file that is complete, and put it in its place."""
        if self.outcome is not None:
            check = Comparison(selection=self.selection(), target=self.target, path=path, outcome=self.outcome)
            check([place.here], first, first + samples)
        return ShardMade(number, first, samples, place.keep_files(self))


@dataclass(frozen=True, slots=True)
class ShardMade:
    """A file that is complete; or lines about pictures that cannot be stored, and no file."""

    number: int
    first: int
    samples: int
    files: dict[str, list[Any]]
    broken: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class EncodedRange:
    """What is known about samples that were encoded: bytes and number of each piece, and which cannot be stored."""

    sizes: npt.NDArray[np.int64]
    counts: npt.NDArray[np.int64]
    broken: list[str]
    seconds: float


@dataclass(slots=True)
class _OnePlace:
    """Where a task writes its file: at its place, or in a folder from which it is uploaded."""

    here: str

    def path(self, number: int) -> str:
        remove_shard(self.here)  # of a run before, which was killed
        return self.here

    def keep(self, number: int, samples: int) -> None:
        """The process that began the work is told."""

    def keep_files(self, job: ShardJob) -> dict[str, list[Any]]:
        """Upload the file if the set is in a store; gives what tells it from another one, where that is wanted."""
        if isinstance(job.path, RemotePath):
            from headrace.formats.stored_shards import upload_shard

            return upload_shard(job.path, self.here)
        return files_of(self.here) if job.is_logged else {}

    def finish(self) -> None:
        """There are no others."""

    def abort(self) -> None:
        """Nothing is there."""


@contextlib.contextmanager
def local_place(path: str) -> Iterator[_OnePlace]:
    """Where a file of a set is written by one process: a path as it is; for a URL one in a temporary folder."""
    if not isinstance(path, RemotePath):
        yield _OnePlace(path)
        return
    from headrace.storage.object_folder import upload_folder

    folder = upload_folder()
    try:
        with named_as_given(path):
            yield _OnePlace(os.path.join(folder.path, os.path.basename(path)))
    finally:
        folder.remove()


def make_shard(job: ShardJob, path: str, number: int, first: int, stop: int) -> ShardMade:
    """Read, encode and write samples from ``first`` up to ``stop``, which are one file."""
    with local_place(path) as place:

        def create(fields: dict[str, Field], length: int | None, about: dict[str, Any]) -> Writer[Any]:
            return job.writer(place, number, first, length)

        try:
            job.selection().write(create, None, Transfer(), start=first, stop=stop)
        except BrokenPicturesError as error:
            return ShardMade(number, first, 0, {}, error.broken)
        return job.made(place, path, number, first, stop - first)


def encode_range(job: ShardJob, first: int, stop: int) -> tuple[EncodedRange, tuple[ShardedChunk, list[str] | None]]:
    """Read and encode samples from ``first`` up to ``stop``; what they are goes into files as soon as these are cut."""
    start_s, result = time.perf_counter(), Transfer()
    pieces = _Pieces(ShardEncoder(job.encoder, job.limits))
    try:
        job.selection().write(lambda *_: pieces, None, result, start=first, stop=stop)
    except BrokenPicturesError as error:
        result.broken = error.broken
    chunks = pieces.pieces
    found = EncodedRange(
        np.array([int(chunk.sizes.sum()) for chunk in chunks], np.int64),
        np.array([len(chunk) for chunk in chunks], np.int64),
        result.broken,
        time.perf_counter() - start_s,
    )
    return found, (ShardedChunk(chunks), pieces.names)


def write_shard(
    job: ShardJob, path: str, number: int, first: int, total: int, parts: Sequence[tuple[Any, int, int]]
) -> ShardMade:
    """Write a file of encoded pieces: of each part, those from one number up to another."""
    with local_place(path) as place:
        with job.writer(place, number, first, total) as writer:
            for kept, start, stop in parts:
                chunk, names = fetch_shared(kept)
                counts = [0, *np.cumsum([len(piece) for piece in chunk.pieces])]
                own = None if names is None else names[counts[start] : counts[stop]]
                writer.append_chunk(ShardedChunk(chunk.pieces[start:stop]), names=own)
            samples = len(writer) - first
        return job.made(place, path, number, first, samples)


class _Pieces(BaseWriter):
    """Takes encoded samples and keeps them in memory."""

    def __init__(self, encoder: ShardEncoder) -> None:
        self.encoder = encoder
        self.pieces: list[EncodedChunk] = []
        self.names: list[str] | None = None
        self.size_bytes = 0

    def __len__(self) -> int:
        return sum(map(len, self.pieces))

    def append(self, sample: Any, *, name: str | None = None) -> None:
        """Add one sample."""
        self.append_chunk(self.encoder([sample], first_index=len(self)), names=None if name is None else [name])

    def append_chunk(self, chunk: ShardedChunk, *, names: Sequence[str] | None = None) -> None:
        """Add samples."""
        self.pieces += chunk.pieces
        self.size_bytes += int(chunk.sizes.sum())
        if names is not None:
            self.names = [*(self.names or []), *names]

    def close(self) -> None:
        """All are there."""

    def abort(self) -> None:
        """Forget them."""
        self.pieces = []
