"""A dataset as a set of files, each of them whole, of any format.

Samples are cut by their encoded bytes or by their number, one by one, so that the files are the same to the byte
whatever the number of workers. All files are made in a hidden folder beside their places; they get their names when
the last one is complete.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from headrace.formats.contract import BaseWriter
from headrace.progress import parse_bytes
from headrace.storage import HiddenFolder

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from headrace.errors import PathLike
    from headrace.formats.contract import Format
    from headrace.types import EncodedChunk, Encoder, Field, Writer

__all__ = [
    "HiddenPlace",
    "ShardCheck",
    "ShardEncoder",
    "ShardFilling",
    "ShardLimits",
    "ShardNames",
    "ShardPlace",
    "ShardedChunk",
    "ShardedWriter",
    "names_of_set",
    "shard_creator",
]

_NUMBER = re.compile(r"%0?(\d{0,2})d|\*")
_DIGITS = 6  # of a number that stands for *
_SCALAR_BYTES = 8

ShardCheck: TypeAlias = Callable[[Sequence[str], int, "int | None"], None]
"""Looks at files of a set that hold the samples from one number up to another, or all of them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ShardLimits:
    """When a file is full: bytes of its samples as they are stored, their number, or both.

    With ``skips`` samples may be left out while they are written, so that no number says before where a file ends.
    """

    size_bytes: int | None = None
    samples: int | None = None
    skips: bool = False

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


@dataclass(slots=True)
class ShardFilling:
    """Where a file ends: decided piece by piece, from their sizes alone, so that whoever knows these finds the cuts.

    Args:
        limits: when a file is full; a sample that is larger has a file of its own.
        scalars: fields of a sample whose values are numbers and not payloads.

    Example:
        >>> filling = ShardFilling(ShardLimits(size_bytes=10), scalars=0)
        >>> [filling.begins_next(size, 1) for size in (4, 6, 1, 20, 1)]
        [False, False, True, True, True]
    """

    limits: ShardLimits
    scalars: int
    samples: int = 0
    size_bytes: int = 0

    @classmethod
    def of(cls, limits: ShardLimits, fields: Mapping[str, Field]) -> ShardFilling:
        """For samples of these fields."""
        return cls(limits, sum(not field.has_payload for field in fields.values()))

    def begins_next(self, payload_bytes: int, count: int) -> bool:
        """Take the next piece; True when it is the first of the next file."""
        size = payload_bytes + _SCALAR_BYTES * self.scalars * count
        is_next = bool(self.samples) and self._is_full(size, count)
        if is_next:
            self.samples = self.size_bytes = 0
        self.samples += count
        self.size_bytes += size
        return is_next

    def _is_full(self, size: int, count: int) -> bool:
        limits = self.limits
        return (limits.size_bytes is not None and self.size_bytes + size > limits.size_bytes) or (
            limits.samples is not None and self.samples + count > limits.samples
        )


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

    def check_new(self, *, force: bool) -> None:
        """FileExistsError when there is something under such names already, and it is not to be replaced."""
        if not force and (there := self.existing()):
            raise FileExistsError(f"{there[0]} exists; give force=True to replace it")

    @property
    def form(self) -> re.Pattern[str]:
        """What the names of the files look like, without the folder, and of what lies beside: an annex, for example."""
        before = os.path.basename(self.before)
        return re.compile(rf"{re.escape(before)}\d+{re.escape(self.after)}(?:[.-].*)?", re.DOTALL)

    def existing(self) -> list[str]:
        """What there is under such names, with what lies beside."""
        folder, form = os.path.dirname(self.before), self.form
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
        if self.limits.size_bytes is not None or self.limits.skips:
            yield from range(1, count)
            return
        assert self.limits.samples is not None
        yield from range(self.limits.samples - first % self.limits.samples, count, self.limits.samples)


class ShardPlace(Protocol):
    """Where the files of a set are made, and what becomes of them."""

    def path(self, number: int) -> str:
        """Where one of the files is written."""
        ...

    def keep(self, number: int, samples: int) -> None:
        """One of them is complete, with so many samples."""
        ...

    def finish(self) -> None:
        """All of them are."""
        ...

    def abort(self) -> None:
        """Something went wrong; a file that is not complete is not there any more."""
        ...


class HiddenPlace:
    """Makes the files in a hidden folder; they get their names when all are complete, or none does.

    Args:
        names: of the files.
        force: replace the files of such names that there are, all of them.
        check: looks at all files before they get their names; what it raises ends the writing.
    """

    def __init__(self, names: ShardNames, *, force: bool, check: ShardCheck | None = None) -> None:
        names.check_new(force=force)
        self._names, self._force, self._check = names, force, check
        self._folder = HiddenFolder(names.pattern)
        self._complete: list[str] = []

    def path(self, number: int) -> str:
        """In the hidden folder."""
        return os.path.join(self._folder.path, os.path.basename(self._names.path(number)))

    def keep(self, number: int, samples: int) -> None:
        """It waits for the others."""
        self._complete.append(self.path(number))

    def finish(self) -> None:
        """Give all of them their names."""
        if self._check is not None:
            self._check(self._complete, 0, None)
        self._folder.hand_over(self._names.existing() if self._force else [])

    def abort(self) -> None:
        """Remove all of them."""
        self._folder.remove()


class ShardedWriter(BaseWriter):
    """Writes a set of files.

    Args:
        place: where they are made.
        create: makes the writer of one file, for a path and a number of samples if that is known.
        fields: name to field, in order.
        limits: when a file is full; a sample that is larger has a file of its own.
        length: number of all samples, if known.
        first_shard: number of the first file that is written.
        done: samples in the files before it.
    """

    def __init__(
        self,
        place: ShardPlace,
        create: Callable[[str, int | None], Writer[Any]],
        fields: Mapping[str, Field],
        *,
        limits: ShardLimits,
        length: int | None = None,
        first_shard: int = 0,
        done: int = 0,
    ) -> None:
        self._place, self._create, self._limits, self._length = place, create, limits, length
        self._filling = ShardFilling.of(limits, fields)
        self._shard, self._done, self._done_bytes = first_shard, done, 0
        try:
            self._writer: Writer[Any] = self._new_writer()
            self.encoder = ShardEncoder(self._writer.encoder, limits)
        except BaseException:
            place.abort()
            raise

    def _new_writer(self) -> Writer[Any]:
        length, limits = None, self._limits
        if limits.size_bytes is None and self._length is not None and limits.samples is not None:
            length = min(limits.samples, self._length - self._done)
        return self._create(self._place.path(self._shard), length)

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
            if self._filling.begins_next(int(piece.sizes.sum()), len(piece)):
                self._begin_next()
            self._writer.append_chunk(piece, names=None if names is None else names[start : start + len(piece)])
            start += len(piece)

    def _begin_next(self) -> None:
        count, size_bytes = len(self._writer), self._writer.size_bytes
        self._finish_shard(count)
        self._shard += 1
        self._done += count
        self._done_bytes += size_bytes
        self._writer = self._new_writer()

    def _finish_shard(self, count: int) -> None:
        self._writer.close()
        self._place.keep(self._shard, count)

    def close(self) -> None:
        """Finish the last file, and give all of them their names."""
        try:
            self._finish_shard(len(self._writer))
            self._place.finish()
        except BaseException:
            self._place.abort()
            raise

    def abort(self) -> None:
        """Throw away what was written; nothing is left behind."""
        try:
            self._writer.abort()
        finally:
            self._place.abort()


def names_of_set(path: PathLike) -> ShardNames:
    """The names that a path stands for; ValueError when it stands for one file."""
    names = ShardNames.of(path)
    if names is None:
        stem, ending = os.path.splitext(os.fspath(path))
        raise ValueError(
            f"{os.fspath(path)} is one file; the files of a set have a number in their names, such as "
            f"{stem}-%06d{ending} or {stem}-*{ending}"
        )
    return names


def shard_creator(
    target: Format, fields: Mapping[str, Field], options: Mapping[str, Any]
) -> Callable[[str, int | None], Writer[Any]]:
    """What makes the writer of one file of a set."""
    return lambda path, count: target.create_checked(path, fields, length=count, **options)
