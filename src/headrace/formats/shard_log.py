"""A set of files that is written in several runs: what is complete is noted beside the set.

The note, ``.NAME.convert.json``, is a hidden file, or an object of that name in a store. It says what is converted and
how, and for each file of the set its number, which samples are in it, and what tells it from another one. It is written
again, in one step, after each file of the set got its name; so whoever is killed leaves files that are complete and
noted, or some that are complete and not yet noted, which are then written again. Files may be complete in any order.
The last run removes the note. As long as it is there the set is not whole, and whoever opens it by a pattern is told.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from headrace._native import crc32c
from headrace.errors import FormatError
from headrace.formats.sharded_writer import ShardNames
from headrace.storage import AtomicFile, open_stream, process_lock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

__all__ = [
    "MAX_NOTE_BYTES",
    "DiskShelf",
    "LoggedPlace",
    "ShardLog",
    "ShardShelf",
    "files_beside",
    "files_of",
    "note_name",
    "refuse_unfinished",
    "remove_shard",
]

_VERSION = 2
_PIECE = 1 << 20
MAX_NOTE_BYTES = 256 << 20
_NOTE = re.compile(r"\.(.+)\.convert\.json", re.DOTALL)


def note_name(name: str) -> str:
    """The name of the note of a set.

    Example:
        >>> note_name("train-%06d.tar")
        '.train-%06d.tar.convert.json'
    """
    return f".{name}.convert.json"


class ShardShelf(Protocol):
    """Where the files of a set lie, with their note."""

    @property
    def pattern(self) -> str:
        """The names of the files, for messages."""
        ...

    @property
    def note(self) -> str:
        """Where the note is, for messages."""
        ...

    def path(self, number: int) -> str:
        """Where one of the files is when it is complete."""
        ...

    def lock(self) -> contextlib.AbstractContextManager[None]:
        """Keep other processes away; ArchiveBusyError, which says who it is, while one is at work there."""
        ...

    def read_note(self) -> bytes | None:
        """The note, or None."""
        ...

    def write_note(self, note: Mapping[str, Any]) -> None:
        """Put it there, or replace it, in one step."""
        ...

    def remove_note(self) -> None:
        """The set is complete, or gone."""
        ...

    def existing(self) -> list[str]:
        """Names of what there is under the names of the files, with what lies beside them."""
        ...

    def remove(self, names: Iterable[str]) -> None:
        """Remove what has these names."""
        ...

    def is_unchanged(self, number: int, files: Mapping[str, Any]) -> bool:
        """A file is still as it was noted."""
        ...


@dataclass(frozen=True, slots=True)
class ShardLog:
    """What of a set is complete.

    Args:
        shelf: where the files lie.
        job: what is converted, and how; values that JSON can hold.
    """

    shelf: ShardShelf
    job: Mapping[str, Any]
    shards: dict[int, dict[str, Any]] = field(default_factory=dict)
    """By their numbers: ``first`` sample in the order of writing, ``samples``, and ``files`` with what is known."""

    @property
    def samples(self) -> int:
        """How many are in the files that are complete."""
        return sum(int(shard["samples"]) for shard in self.shards.values())

    @property
    def size_bytes(self) -> int:
        """Bytes of the files that are complete."""
        return sum(int(size) for shard in self.shards.values() for size, _ in shard["files"].values())

    def keep_first(self) -> None:
        """Forget all files behind the first that is missing, for whoever writes them one after the other."""
        first = next(number for number in range(len(self.shards) + 1) if number not in self.shards)
        for number in [number for number in self.shards if number > first]:
            del self.shards[number]

    @classmethod
    def load(cls, shelf: ShardShelf, job: Mapping[str, Any], *, force: bool) -> ShardLog:
        """What an earlier run has noted, files that are still as it left them; nothing without an earlier run.

        Raises:
            ValueError: the earlier run had another source or other options.
            FileExistsError: there are such files, and no run has noted anything.
        """
        log = cls.begin(shelf, job)
        data = shelf.read_note()
        if data is None:
            log.check_new(force=force)
            return log
        noted = log._parsed(data)
        log._refuse_other(noted["job"])
        for shard in noted["shards"]:
            if shelf.is_unchanged(shard["number"], shard["files"]):
                log.shards[shard["number"]] = {name: shard[name] for name in ("first", "samples", "files")}
        return log

    @classmethod
    def begin(cls, shelf: ShardShelf, job: Mapping[str, Any]) -> ShardLog:
        """A set of which nothing is there."""
        return cls(shelf, json.loads(json.dumps(job)))

    def check_new(self, *, force: bool) -> None:
        """FileExistsError when there is something under such names already, and it is not to be replaced."""
        if not force and (there := self.shelf.existing()):
            place = os.path.join(os.path.dirname(self.shelf.pattern), there[0])
            raise FileExistsError(f"{place} exists; give force=True to replace it")

    def clear(self) -> None:
        """Remove the files of the set that are not noted: they belong to nothing."""
        noted = {name.partition("/")[0] for shard in self.shards.values() for name in shard["files"]}
        self.shelf.remove(name for name in self.shelf.existing() if name.partition("/")[0] not in noted)

    def _parsed(self, data: bytes) -> dict[str, Any]:
        try:
            noted: dict[str, Any] = json.loads(data)
            if noted["version"] != _VERSION:
                raise ValueError(f"its version is {noted['version']!r}")
            if not isinstance(noted["job"], dict):
                raise TypeError("it does not say what was converted")
            _check_shards(noted["shards"])
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise FormatError(
                self.shelf.note,
                problem=f"what an earlier run has noted cannot be read ({error})",
                fix=f"Remove {self.shelf.note} and the files of the set, and begin again.",
            ) from None
        return noted

    def _refuse_other(self, job: Mapping[str, Any]) -> None:
        other = sorted(name for name in {*job, *self.job} if job.get(name) != self.job.get(name))
        if other:
            words = ", ".join(name.replace("_", " ") for name in other)
            raise ValueError(
                f"{self.shelf.pattern} was begun with another {words}, so it cannot be resumed. Run the same command "
                f"again, or begin anew: remove {self.shelf.note} and the files of the set"
            )

    def note(self, number: int, first: int, samples: int, files: Mapping[str, Any] | None = None) -> None:
        """A file is complete; ``files`` is what ``files_of`` says about it, if that is known."""
        found = files_of(self.shelf.path(number)) if files is None else dict(files)
        self.shards[number] = {"first": first, "samples": samples, "files": found}
        self.save()

    def save(self) -> None:
        """Put the note there."""
        shards = [{"number": number, **shard} for number, shard in sorted(self.shards.items())]
        self.shelf.write_note({"version": _VERSION, "job": dict(self.job), "shards": shards})

    def remove(self) -> None:
        """The set is complete."""
        self.shelf.remove_note()


def refuse_unfinished(folder: str, names: Iterable[str], used: Sequence[str]) -> None:
    """FormatError when a note among the names in a folder says that a set is not whole of which files are used.

    Args:
        folder: for the message, with its slash.
        names: of all that lies in the folder.
        used: names of the files of it that a pattern stands for.
    """
    for name in names:
        found = _NOTE.fullmatch(name)
        of_set = None if found is None else ShardNames.of(found[1])
        if of_set is not None and any(map(of_set.form.fullmatch, used)):
            raise FormatError(
                folder + of_set.pattern,
                problem=f"the set is not complete: {folder}{name} says that it is still being written, or that its "
                "writer was interrupted",
                fix="Wait for the writer, or run its command again with --resume. To read what is there, name the "
                "files one by one.",
            )


@dataclass(frozen=True, slots=True)
class DiskShelf:
    """Files of this machine; one process at a time works on a set: it holds the lock of ``.NAME.convert.lock``."""

    names: ShardNames

    @property
    def pattern(self) -> str:
        """The names of the files."""
        return self.names.pattern

    @property
    def note(self) -> str:
        """The path of the hidden file."""
        folder, name = os.path.split(self.names.pattern)
        return os.path.join(folder, note_name(name))

    def path(self, number: int) -> str:
        """The path of one of the files."""
        return self.names.path(number)

    def lock(self) -> contextlib.AbstractContextManager[None]:
        """Keep other processes away from the set."""
        return process_lock(self.note.removesuffix(".json") + ".lock", self.names.pattern)

    def read_note(self) -> bytes | None:
        """What is in the hidden file."""
        if not os.path.exists(self.note):
            return None
        with open_stream(self.note) as file:
            return file.read(MAX_NOTE_BYTES)

    def write_note(self, note: Mapping[str, Any]) -> None:
        """Put the hidden file on the disk."""
        with AtomicFile(self.note) as file:
            file.write([json.dumps(note).encode()])

    def remove_note(self) -> None:
        """Remove the hidden file."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.note)

    def existing(self) -> list[str]:
        """Names of the files that there are."""
        return list(map(os.path.basename, self.names.existing()))

    def remove(self, names: Iterable[str]) -> None:
        """Remove files or folders."""
        for name in names:
            _remove(os.path.join(os.path.dirname(self.names.pattern), name))

    def is_unchanged(self, number: int, files: Mapping[str, Any]) -> bool:
        """Sizes and checksums are as they were."""
        return files == files_of(self.path(number))


def _check_shards(shards: Any) -> None:
    for shard in shards:
        for name in ("number", "first", "samples"):
            if type(shard[name]) is not int or shard[name] < 0:
                raise ValueError(f"of a file of the set, {name!r} is no whole number")
        if not isinstance(shard["files"], dict):
            raise ValueError("a file of the set has no sizes")


def files_of(path: str) -> dict[str, list[int]]:
    """Size and checksum of all that a file of a set consists of, by name."""
    found: dict[str, list[int]] = {}
    for name in files_beside(path):
        found |= _sums(os.path.join(os.path.dirname(path), name), name)
    return found


def files_beside(path: str) -> list[str]:
    """Names of what belongs to a path: itself, an annex, shards."""
    folder, name = os.path.split(path)
    names = sorted(os.listdir(folder or os.curdir))
    return [one for one in names if one == name or (one.startswith(name) and one[len(name)] in ".-")]


def _sums(path: str, name: str) -> dict[str, list[int]]:
    if os.path.isdir(path):
        inside = (_sums(os.path.join(path, one), f"{name}/{one}") for one in sorted(os.listdir(path)))
        return {key: value for sums in inside for key, value in sums.items()}
    checksum = size = 0
    with open_stream(path, buffering=0) as file:
        while piece := file.read(_PIECE):
            checksum, size = crc32c(piece, checksum), size + len(piece)
    return {name: [size, checksum]}


def remove_shard(path: str) -> None:
    """Remove a file of a set, with all that lies beside it and belongs to it."""
    for name in files_beside(path):
        _remove(os.path.join(os.path.dirname(path), name))


def _remove(path: str) -> None:
    shutil.rmtree(path) if os.path.isdir(path) and not os.path.islink(path) else os.unlink(path)


class LoggedPlace:
    """Makes the files of a set under their final names, one after the other, and notes each.

    Args:
        log: what is complete.
        check: looks at all files at the end; what it raises ends the writing, and the files stay.
    """

    def __init__(self, log: ShardLog, *, check: Callable[[Sequence[str]], None] | None = None) -> None:
        log.save()
        log.clear()
        self._log, self._check = log, check

    def path(self, number: int) -> str:
        """Its final name; the file appears there when it is complete."""
        return self._log.shelf.path(number)

    def keep(self, number: int, samples: int) -> None:
        """It is complete."""
        self._log.note(number, self._log.samples, samples)

    def finish(self) -> None:
        """All of them are."""
        if self._check is not None:
            self._check([self._log.shelf.path(number) for number in range(len(self._log.shards))])
        self._log.remove()

    def abort(self) -> None:
        """What is complete stays, for the next run; where nothing is, there is nothing to note."""
        if not self._log.shards:
            self._log.remove()
