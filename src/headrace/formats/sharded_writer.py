"""A dataset as a set of files, each of them whole, of any format.

Samples are cut by their encoded bytes or by their number, one by one, so that the files are the same to the byte
whatever the number of workers. All files are made in a hidden folder beside their places; they get their names when
the last one is complete.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from headrace.formats.contract import BaseWriter
from headrace.progress import parse_bytes
from headrace.storage import HiddenFolder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from headrace.errors import PathLike
    from headrace.formats.contract import Format
    from headrace.types import EncodedChunk, Encoder, Field, Writer

__all__ = ["ShardLimits", "ShardNames", "ShardedWriter", "new_writer"]

_NUMBER = re.compile(r"%0?(\d{0,2})d|\*")
_DIGITS = 6  # of a number that stands for *
_SCALAR_BYTES = 8


@dataclass(frozen=True, kw_only=True, slots=True)
class ShardLimits:
    """When a file is full: bytes of its samples as they are stored, their number, or both."""

    size_bytes: int | None = None
    samples: int | None = None

    @classmethod
    def of(cls, shard_size: int | str | None, shard_samples: int | None) -> ShardLimits | None:
        """What the options of ``write`` say; None when they say nothing."""
        if shard_size is None and shard_samples is None:
            return None
        size = parse_bytes(shard_size) if isinstance(shard_size, str) else shard_size
        for name, value in (("shard_size", size), ("shard_samples", shard_samples)):
            if value is not None and (isinstance(value, bool) or not hasattr(value, "__index__") or value < 1):
                raise ValueError(f"{name} must be a whole number from 1 on, got {value!r}")
        return cls(size_bytes=size, samples=shard_samples)


@dataclass(frozen=True, slots=True)
class ShardNames:
    """Names with a number: what stands before and after it, and its digits.

    Example:
        >>> ShardNames.of("out/train-%03d.tar").path(7), ShardNames.of("train-*.beton").path(7)
        ('out/train-007.tar', 'train-000007.beton')
    """

    pattern: str
    before: str
    digits: int
    after: str

    @classmethod
    def of(cls, path: PathLike) -> ShardNames | None:
        """The names that a path such as ``train-%06d.tar`` or ``train-*.tar`` stands for; None for any other."""
        text = os.fspath(path)
        folder, name = os.path.split(text)
        found = list(_NUMBER.finditer(name))
        if len(found) != 1:
            return None
        (number,) = found
        digits = _DIGITS if number[0] == "*" else int(number[1] or 0)
        return cls(text, os.path.join(folder, name[: number.start()]), digits, name[number.end() :])

    def path(self, number: int) -> str:
        """The path of one of the files."""
        return f"{self.before}{number:0{self.digits}d}{self.after}"

    def existing(self) -> list[str]:
        """What there is under such names, with what lies beside: an annex, for example."""
        folder, before = os.path.split(self.before)
        form = re.compile(rf"{re.escape(before)}\d+{re.escape(self.after)}(?:[.-].*)?", re.DOTALL)
        names = os.listdir(folder or os.curdir) if os.path.isdir(folder or os.curdir) else []
        return [os.path.join(folder, name) for name in sorted(names) if form.fullmatch(name)]


@dataclass(frozen=True, slots=True)
class ShardedChunk:
    """Consecutive samples in pieces that are not cut any more."""

    pieces: list[EncodedChunk]

    def __len__(self) -> int:
        return sum(map(len, self.pieces))

    @property
    def sizes(self) -> npt.NDArray[np.uint64]:
        """Bytes of each payload."""
        return np.concatenate([piece.sizes for piece in self.pieces])


@dataclass(frozen=True, slots=True)
class ShardEncoder:
    """Encodes samples so that they can be cut where a file is full."""

    encoder: Encoder[EncodedChunk]
    limits: ShardLimits

    def __call__(self, samples: Iterable[Any], *, first_index: int) -> ShardedChunk:
        """Encode samples that will stand from ``first_index`` on."""
        kept = list(samples)
        cuts = [0, *self._cuts(first_index, len(kept))]
        pieces = [
            self.encoder(kept[start:stop], first_index=first_index + start)
            for start, stop in zip(cuts, [*cuts[1:], len(kept)], strict=True)
        ]
        return ShardedChunk(pieces)

    def _cuts(self, first: int, count: int) -> Iterator[int]:
        """Where a file may end: behind any sample, or, if only samples are counted, behind so many."""
        if self.limits.size_bytes is not None:
            yield from range(1, count)
            return
        assert self.limits.samples is not None
        yield from range(self.limits.samples - first % self.limits.samples, count, self.limits.samples)


class ShardedWriter(BaseWriter):
    """Writes a set of files; no file has its name before all are complete.

    Args:
        names: of the files.
        create: makes the writer of one file, for a path and a number of samples if that is known.
        fields: name to field, in order.
        limits: when a file is full; a sample that is larger has a file of its own.
        length: number of all samples, if known.
        force: replace the files of such names that there are, all of them.
    """

    def __init__(
        self,
        names: ShardNames,
        create: Callable[[str, int | None], Writer[Any]],
        fields: Mapping[str, Field],
        *,
        limits: ShardLimits,
        length: int | None = None,
        force: bool = False,
    ) -> None:
        self._names, self._create, self._limits, self._length, self._force = names, create, limits, length, force
        self._scalars = sum(not field.has_payload for field in fields.values())
        if not force and (there := names.existing()):
            raise FileExistsError(f"{there[0]} exists; give force=True to replace it")
        self._folder = HiddenFolder(names.pattern)
        self._shards = self._done = self._done_bytes = self._size = 0
        try:
            self._writer: Writer[Any] = self._next()
            self.encoder = ShardEncoder(self._writer.encoder, limits)
        except BaseException:
            self._folder.remove()
            raise

    def _next(self) -> Writer[Any]:
        path = os.path.join(self._folder.path, os.path.basename(self._names.path(self._shards)))
        length, limits = None, self._limits
        if limits.size_bytes is None and self._length is not None and limits.samples is not None:
            length = min(limits.samples, self._length - self._done)
        self._shards += 1
        self._size = 0
        return self._create(path, length)

    def __len__(self) -> int:
        """Samples taken so far."""
        return self._done + len(self._writer)

    @property
    def size_bytes(self) -> int:
        """Bytes of the samples taken so far."""
        return self._done_bytes + self._writer.size_bytes

    def append(self, sample: Any, *, name: str | None = None) -> None:
        """Add one sample."""
        chunk = self.encoder([sample], first_index=len(self))
        self.append_chunk(chunk, names=None if name is None else [name])

    def append_chunk(self, chunk: ShardedChunk, *, names: Sequence[str] | None = None) -> None:
        """Add samples that ``encoder`` has encoded, and their names; chunks must come in order."""
        start = 0
        for piece in chunk.pieces:
            size = int(piece.sizes.sum()) + _SCALAR_BYTES * self._scalars * len(piece)
            if len(self._writer) and self._is_full(size, len(piece)):
                self._finish_shard()
                self._writer = self._next()
            self._writer.append_chunk(piece, names=None if names is None else names[start : start + len(piece)])
            start += len(piece)
            self._size += size

    def _is_full(self, size: int, count: int) -> bool:
        limits = self._limits
        return (limits.size_bytes is not None and self._size + size > limits.size_bytes) or (
            limits.samples is not None and len(self._writer) + count > limits.samples
        )

    def _finish_shard(self) -> None:
        count, size_bytes = len(self._writer), self._writer.size_bytes
        self._writer.close()
        self._done += count
        self._done_bytes += size_bytes

    def close(self) -> None:
        """Finish the last file, and give all of them their names."""
        try:
            self._writer.close()
            self._folder.hand_over(self._names.existing() if self._force else [])
        except BaseException:
            self._folder.remove()
            raise

    def abort(self) -> None:
        """Throw away what was written; nothing is left behind."""
        try:
            self._writer.abort()
        finally:
            self._folder.remove()


def new_writer(
    target: Format,
    path: PathLike,
    fields: Mapping[str, Field],
    *,
    length: int | None,
    limits: ShardLimits | None,
    force: bool,
    options: Mapping[str, Any],
) -> Writer[Any]:
    """Make the writer of one file, or, with limits, of a set.

    Args:
        target: the format.
        path: of the file; of a set, with a number in its name.
        fields: name to field, in order.
        length: number of all samples, if known.
        limits: when a file of a set is full.
        force: replace the files of a set that there are.
        options: what the format's writer takes.
    """
    if limits is None:
        return target.create_checked(path, fields, length=length, **options)
    names = ShardNames.of(path)
    if names is None:
        stem, ending = os.path.splitext(os.fspath(path))
        raise ValueError(
            f"{os.fspath(path)} is one file; the files of a set have a number in their names, such as "
            f"{stem}-%06d{ending} or {stem}-*{ending}"
        )

    def create(one: str, count: int | None) -> Writer[Any]:
        return target.create_checked(one, fields, length=count, **options)

    return ShardedWriter(names, create, fields, limits=limits, length=length, force=force)
