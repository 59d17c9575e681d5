"""A set of files that is written in several runs: what is complete is noted in a hidden file beside the set.

The file, ``.NAME.convert.json``, says what is converted and how, and for each file of the set its number, which samples
are in it, sizes and checksums. It is written again, in one step, after each file of the set got its name; so whoever is
killed leaves files that are complete and noted, or some that are complete and not yet noted, which are then written
again. Files may be complete in any order. The last run removes it. One process at a time works on a set: it holds the
lock of ``.NAME.convert.lock``.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from headrace._native import crc32c
from headrace.errors import FormatError
from headrace.storage import AtomicFile, open_stream, process_lock

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from headrace.formats.sharded_writer import ShardNames

__all__ = ["LoggedPlace", "ShardLog", "files_of", "remove_shard"]

_VERSION = 2
_PIECE = 1 << 20
_MAX_BYTES = 256 << 20


@dataclass(frozen=True, slots=True)
class ShardLog:
    """What of a set is complete.

    Args:
        names: of the files.
        job: what is converted, and how; values that JSON can hold.
    """

    names: ShardNames
    job: Mapping[str, Any]
    shards: dict[int, dict[str, Any]] = field(default_factory=dict)
    """By their numbers: ``first`` sample in the order of writing, ``samples``, and ``files`` with sizes and sums."""

    @property
    def path(self) -> str:
        """Of the hidden file."""
        folder, name = os.path.split(self.names.pattern)
        return os.path.join(folder, f".{name}.convert.json")

    @classmethod
    def lock(cls, names: ShardNames) -> contextlib.AbstractContextManager[None]:
        """Keep other processes away from a set; ArchiveBusyError, which says who it is, while one is at work there."""
        return process_lock(cls(names, {}).path.removesuffix(".json") + ".lock", names.pattern)

    @property
    def samples(self) -> int:
        """How many are in the files that are complete."""
        return sum(int(shard["samples"]) for shard in self.shards.values())

    def keep_first(self) -> None:
        """Forget all files behind the first that is missing, for whoever writes them one after the other."""
        first = next(number for number in range(len(self.shards) + 1) if number not in self.shards)
        for number in [number for number in self.shards if number > first]:
            del self.shards[number]

    @classmethod
    def load(cls, names: ShardNames, job: Mapping[str, Any], *, force: bool) -> ShardLog:
        """What an earlier run has noted, files that are still as it left them; nothing without an earlier run.

        Raises:
            ValueError: the earlier run had another source or other options.
            FileExistsError: there are such files, and no run has noted anything.
        """
        log = cls(names, json.loads(json.dumps(job)))
        if not os.path.exists(log.path):
            names.check_new(force=force)
            log.clear()
            return log
        noted = log._read()
        log._refuse_other(noted["job"])
        for shard in noted["shards"]:
            if shard["files"] == files_of(names.path(shard["number"])):
                log.shards[shard["number"]] = {name: shard[name] for name in ("first", "samples", "files")}
        return log

    def clear(self) -> None:
        """Remove the files of the set that are not noted: they belong to nothing."""
        noted = {name.partition("/")[0] for shard in self.shards.values() for name in shard["files"]}
        for path in self.names.existing():
            if os.path.basename(path) not in noted:
                _remove(path)

    def _read(self) -> dict[str, Any]:
        try:
            with open_stream(self.path) as file:
                noted: dict[str, Any] = json.loads(file.read(_MAX_BYTES))
            if noted["version"] != _VERSION:
                raise ValueError(f"its version is {noted['version']!r}")
            if not isinstance(noted["job"], dict):
                raise TypeError("it does not say what was converted")
            _check_shards(noted["shards"])
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise FormatError(
                self.path,
                problem=f"what an earlier run has noted cannot be read ({error})",
                fix=f"Remove {self.path} and the files of the set, and begin again.",
            ) from None
        return noted

    def _refuse_other(self, job: Mapping[str, Any]) -> None:
        other = sorted(name for name in {*job, *self.job} if job.get(name) != self.job.get(name))
        if other:
            words = ", ".join(name.replace("_", " ") for name in other)
            raise ValueError(
                f"{self.names.pattern} was begun with another {words}, so it cannot be resumed. Run the same command "
                f"again, or begin anew: remove {self.path} and the files of the set"
            )

    def note(self, number: int, first: int, samples: int, files: Mapping[str, Any] | None = None) -> None:
        """A file is complete; ``files`` is what ``files_of`` says about it, if that is known."""
        found = files_of(self.names.path(number)) if files is None else dict(files)
        self.shards[number] = {"first": first, "samples": samples, "files": found}
        self.save()

    def save(self) -> None:
        """Put all of it on the disk."""
        shards = [{"number": number, **shard} for number, shard in sorted(self.shards.items())]
        text = json.dumps({"version": _VERSION, "job": dict(self.job), "shards": shards})
        with AtomicFile(self.path) as file:
            file.write([text.encode()])

    def remove(self) -> None:
        """The set is complete."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path)


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
    for name in _lying_at(path):
        found |= _sums(os.path.join(os.path.dirname(path), name), name)
    return found


def _lying_at(path: str) -> list[str]:
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
    for name in _lying_at(path):
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
        log.keep_first()
        log.clear()
        log.save()
        self._log, self._check = log, check

    def path(self, number: int) -> str:
        """Its final name; the file appears there when it is complete."""
        return self._log.names.path(number)

    def keep(self, number: int, samples: int) -> None:
        """It is complete."""
        self._log.note(number, self._log.samples, samples)

    def finish(self) -> None:
        """All of them are."""
        if self._check is not None:
            self._check([self._log.names.path(number) for number in range(len(self._log.shards))])
        self._log.remove()

    def abort(self) -> None:
        """What is complete stays, for the next run; where nothing is, there is nothing to note."""
        if not self._log.shards:
            self._log.remove()
