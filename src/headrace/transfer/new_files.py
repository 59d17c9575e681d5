"""The file, or set of files, that samples are written to."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import count, takewhile
from typing import TYPE_CHECKING, Any

from headrace.errors import ArchiveBusyError
from headrace.fields import to_spec
from headrace.formats.local_target import named_as_given
from headrace.formats.new_writer import new_writer
from headrace.formats.shard_log import DiskShelf, LoggedPlace, ShardLog
from headrace.formats.sharded_writer import (
    HiddenPlace,
    ShardedWriter,
    ShardNames,
    names_of_set,
    shard_creator,
)
from headrace.storage import RemotePath
from headrace.transfer.checked_writer import CheckedWriter
from headrace.transfer.comparison import Comparison
from headrace.transfer.task_shards import ShardPlan

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from headrace.formats.contract import Format
    from headrace.formats.report import Transfer
    from headrace.formats.shard_log import ShardShelf
    from headrace.formats.sharded_writer import ShardLimits, ShardPlace
    from headrace.transfer.samples import Selection
    from headrace.transfer.shard_work import ShardMade
    from headrace.transfer.task_shards import TaskShards
    from headrace.types import Field, Progress, Writer

__all__ = ["NewFiles"]

_NOT_KEPT = "Nothing was put in place."
_NOT_SENT = "This file was not uploaded."
_KEPT = "The files of the set are left where they are, for a look at them; remove them to begin again."
_REMOVED = "This file was removed; the files of the set that are complete are kept."


@dataclass(frozen=True, kw_only=True, slots=True)
class NewFiles:
    """Where samples go.

    Args:
        target: the format.
        path: of the file; of a set, with a number in its name, and then it may be a URL.
        limits: when a file of a set is full; None for one file.
        force: replace what is there.
        is_verified: read and compare what was written.
        is_resumed: write a set file by file, and go on where an earlier run was interrupted.
        options: what the format's writer takes.
    """

    target: Format
    path: str
    limits: ShardLimits | None
    force: bool
    is_verified: bool
    is_resumed: bool
    options: dict[str, Any]

    def write(
        self, chosen: Selection, progress: Progress | None, result: Transfer, tasks: TaskShards | None = None
    ) -> None:
        """Write samples, and count them; with ``tasks``, which make the files of a set."""
        if isinstance(self.path, RemotePath):
            with named_as_given(self.path):
                self._write_to_store(self.path, chosen, progress, result, tasks)
            return
        if self.is_resumed:
            shelf = DiskShelf(names_of_set(self.path))
            with shelf.lock():
                if tasks is None:
                    result.samples = self._resume(shelf, chosen, progress, result)
                else:
                    result.samples = self._log_by_tasks(tasks, self._load(shelf, chosen), chosen, progress, result)
        elif tasks is not None:
            result.samples = self._write_by_tasks(tasks, chosen, progress, result)
        else:
            result.samples = chosen.write(self._creator(chosen), progress, result)
        result.size_bytes = sum(map(self.target.size_bytes, self._written()))

    def _write_to_store(
        self,
        path: RemotePath,
        chosen: Selection,
        progress: Progress | None,
        result: Transfer,
        tasks: TaskShards | None,
    ) -> None:
        from headrace.formats.stored_shards import StoreShelf, UploadedPlace, begin_anew

        shelf = StoreShelf(path)
        if tasks is not None and not self.is_resumed:
            log = begin_anew(shelf, self._job(chosen), force=self.force)
        elif self.is_resumed:
            log = self._load(shelf, chosen)
        else:
            log = ShardLog.begin(shelf, self._job(chosen))
        if tasks is not None:
            if shelf.has_note:
                shelf.abort_uploads()
            try:
                result.samples = self._log_by_tasks(tasks, log, chosen, progress, result)
            finally:
                shelf.abort_uploads()  # of processes that were killed
        else:
            check, force = self._comparison(chosen, _NOT_SENT), self.force

            def place() -> ShardPlace:
                return UploadedPlace(log, shelf, is_resumed=self.is_resumed, force=force, check=check)

            result.samples = self._write_logged(place, log, chosen, progress, result)
        result.size_bytes = log.size_bytes

    def _comparison(self, chosen: Selection, outcome: str) -> Comparison | None:
        if not self.is_verified:
            return None
        return Comparison(selection=chosen, target=self.target, path=self.path, outcome=outcome)

    def _create(
        self,
        fields: dict[str, Field],
        length: int | None,
        about: dict[str, Any],
        check: Comparison | None,
        limits: ShardLimits | None,
    ) -> Writer[Any]:
        options = about | self.options
        if check is not None and self.limits is None:
            path, force = self.path, self.force
            return CheckedWriter(
                path,
                lambda hidden: self.target.create_checked(hidden, fields, length=length, **options),
                check,
                force=force,
            )
        return new_writer(
            self.target,
            self.path,
            fields,
            length=length,
            limits=limits,
            force=self.force,
            options=options,
            check=check,
        )

    def _creator(self, chosen: Selection) -> Callable[[dict[str, Field], int | None, dict[str, Any]], Writer[Any]]:
        check = self._comparison(chosen, _NOT_KEPT)

        def create(fields: dict[str, Field], length: int | None, about: dict[str, Any]) -> Writer[Any]:
            return self._create(fields, length, about, check, self._limits(chosen))

        return create

    def _load(self, shelf: ShardShelf, chosen: Selection) -> ShardLog:
        return ShardLog.load(shelf, self._job(chosen), force=self.force)

    def _resume(self, shelf: ShardShelf, chosen: Selection, progress: Progress | None, result: Transfer) -> int:
        log = self._load(shelf, chosen)
        check = self._comparison(chosen, _KEPT)
        return self._write_logged(lambda: LoggedPlace(log, check=check), log, chosen, progress, result)

    def _write_logged(
        self,
        place: Callable[[], ShardPlace],
        log: ShardLog,
        chosen: Selection,
        progress: Progress | None,
        result: Transfer,
    ) -> int:
        """Write the files that are not in the log, one after the other."""
        limits = self._limits(chosen)
        assert limits is not None
        log.keep_first()
        done, total = log.samples, len(chosen.order)
        if done >= total and log.shards:
            place().finish()
            return total

        def create(fields: dict[str, Field], length: int | None, about: dict[str, Any]) -> Writer[Any]:
            new = shard_creator(self.target, fields, about | self.options)
            shard = len(log.shards)
            return ShardedWriter(place(), new, fields, limits=limits, length=length, first_shard=shard, done=done)

        return chosen.write(create, progress, result, start=done)

    def _write_by_tasks(self, tasks: TaskShards, chosen: Selection, progress: Progress | None, result: Transfer) -> int:
        place = HiddenPlace(names_of_set(self.path), force=self.force)

        def keep(made: ShardMade) -> None:
            place.keep(made.number, made.samples)

        try:
            count = tasks.write(chosen, self._plan(chosen, place.path, keep, {}, _NOT_KEPT), progress, result)
            place.finish()
        except BaseException:
            tasks.tasks.cancel()  # before the folder in which they write goes
            place.abort()
            raise
        return count

    def _log_by_tasks(
        self, tasks: TaskShards, log: ShardLog, chosen: Selection, progress: Progress | None, result: Transfer
    ) -> int:
        """Have the files made that are not in the log; those that are complete stay when it is to be resumed."""
        log.save()  # first: from here on the set is not whole
        log.clear()

        def keep(made: ShardMade) -> None:
            log.note(made.number, made.first, made.samples, made.files)

        done = {number: (shard["first"], shard["samples"]) for number, shard in log.shards.items()}
        try:
            count = tasks.write(chosen, self._plan(chosen, log.shelf.path, keep, done, _REMOVED), progress, result)
        except ArchiveBusyError:
            tasks.tasks.cancel()
            raise  # what is there belongs to another process now
        except BaseException:
            tasks.tasks.cancel()  # while the lock is held
            if not self.is_resumed:
                log.shards.clear()
            log.clear()  # a task may have been complete, and nobody has noted it
            if not log.shards:
                log.remove()
            raise
        log.remove()
        return count

    def _plan(
        self,
        chosen: Selection,
        place: Callable[[int], str],
        keep: Callable[[ShardMade], None],
        done: dict[int, tuple[int, int]],
        outcome: str,
    ) -> ShardPlan:
        assert self.limits is not None
        return ShardPlan(
            target=self.target,
            options=chosen.about | self.options,
            limits=self._limits(chosen) or self.limits,
            path=self.path,
            place=place,
            keep=keep,
            done=done,
            outcome=outcome if self.is_verified else None,
            is_logged=self.is_resumed,
        )

    def _limits(self, chosen: Selection) -> ShardLimits | None:
        return None if self.limits is None else replace(self.limits, skips=chosen.options.skip_broken)

    def _job(self, chosen: Selection) -> dict[str, Any]:
        """What must be the same for a set to be resumed."""
        options, limits = chosen.options, self.limits
        assert limits is not None
        return {
            "source": [chosen.fingerprint, len(chosen.origin.sources())],
            "fields": [[name, chosen.columns[name], to_spec(kind)] for name, kind in chosen.fields.items()],
            "names": chosen.has_names,
            "shuffle_seed": options.shuffle_seed,
            "limit": options.limit,
            "shard_size": limits.size_bytes,
            "shard_samples": limits.samples,
            "format": self.target.name,
            "writer_options": {name: repr(value) for name, value in sorted((chosen.about | self.options).items())},
        }

    def _written(self) -> Sequence[str]:
        if self.limits is None:
            return [self.path]
        names = ShardNames.of(self.path)
        assert names is not None
        return list(takewhile(self.target.exists, map(names.path, count())))
