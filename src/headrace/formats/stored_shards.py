"""A set of files in a store: each is made here, uploaded while the next one is made, and noted beside the set.

Contract. One thread makes the files; another one sends those that are complete, one after the other, so the temporary
folder (``TMPDIR``) holds two of them at the most. The note of the set (see ``shard_log``) is there before the first of
its objects, and goes behind the last: as long as it is there the set is not whole. What fails, Ctrl-C included, is
taken back, or, where the set can be resumed, kept as it is noted. A set that replaces another one is made here as a
whole first, and then uploaded, so that the old one stays when a sample fails.

Who takes over a set from a process that lives writes the note anew; that process finds it, and stops.
"""

from __future__ import annotations

import json
import logging
import os
import platform
import secrets
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING, Any

from headrace.errors import ArchiveBusyError
from headrace.formats.shard_log import MAX_NOTE_BYTES, ShardLog, files_beside, note_name, remove_shard
from headrace.formats.sharded_writer import names_of_set
from headrace.storage.object_folder import ObjectFolder, upload_folder
from headrace.storage.unfinished_uploads import abort_uploads

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from contextlib import AbstractContextManager

    from headrace.formats.sharded_writer import ShardCheck
    from headrace.storage import RemotePath
    from headrace.storage.object_store import ObjectFacts
    from headrace.storage.upload import Upload

__all__ = ["StoreShelf", "UploadedPlace", "begin_anew", "upload_shard"]

_log = logging.getLogger("headrace")


class StoreShelf:
    """Objects of a store; see ``ShardShelf``.

    Args:
        path: URL of the set, with a number or a star in its name.

    Attributes:
        has_note: a note was there when it was last looked for.
    """

    def __init__(self, path: RemotePath) -> None:
        self._path, self._objects = path, ObjectFolder(path)
        self._names = names = names_of_set(self._objects.name)
        digits = f"0{names.digits}" if names.digits else ""
        self._note_name = note_name(f"{names.before}%{digits}d{names.after}")
        self._writer = f"process {os.getpid()} on {platform.node()} ({secrets.token_hex(4)})"
        self._written: bytes | None = None
        self._facts: dict[str, ObjectFacts] | None = None
        self.has_note = False

    @property
    def pattern(self) -> str:
        """The names of the objects."""
        return str(self._path)

    @property
    def note(self) -> str:
        """The URL of the note."""
        return self._objects.url_of(self._note_name)

    def path(self, number: int) -> RemotePath:
        """The URL of one of the objects."""
        return self._path.with_url(self._objects.url_of(self._names.path(number)))

    def lock(self) -> AbstractContextManager[None]:
        """Nobody is kept away; who comes later takes over."""
        return nullcontext()

    def read_note(self) -> bytes | None:
        """What the note says."""
        found = self._objects.read(self._note_name, MAX_NOTE_BYTES)
        self.has_note = found is not None
        return found

    def write_note(self, note: Mapping[str, Any]) -> None:
        """Put the note there, or replace our own."""
        self.check_own()
        data = json.dumps({**note, "writer": self._writer}).encode()
        self._objects.put(self._note_name, data)
        self._written = data

    def remove_note(self) -> None:
        """Remove our own note; does nothing where there is none of ours."""
        if self._written is not None:
            self.check_own()
            self._objects.delete(self._note_name)
            self._written = None

    def check_own(self) -> None:
        """ArchiveBusyError when somebody else has taken the set over."""
        if self._written is None:
            return
        found = self._objects.read(self._note_name, MAX_NOTE_BYTES)
        if found != self._written:
            who = _writer_of(found)
            raise ArchiveBusyError(
                f"{self.pattern}: {who} has taken over this set, so this process stops. Run one process at a time on "
                "a set; what is complete is kept"
            )

    def existing(self) -> list[str]:
        """Names of the objects that there are."""
        self._facts = self._objects.existing(self._names.form, self._names.before)
        return sorted(self._facts)

    def remove(self, names: Iterable[str]) -> None:
        """Remove objects."""
        for name in names:
            self._objects.delete(name)

    def is_unchanged(self, number: int, files: Mapping[str, Any]) -> bool:
        """Sizes and versions are as they were."""
        if self._facts is None:
            self.existing()
        return bool(files) and all(self._is_as_noted(name, *noted) for name, noted in files.items())

    def _is_as_noted(self, name: str, size: int, version: str | None) -> bool:
        listed = (self._facts or {}).get(name)
        if listed is None or version is None or listed.size_bytes != size:
            return False
        if listed.version == version:
            return True
        found = self._objects.head(name)  # some stores tell another version in a list
        return found is not None and (found.size_bytes, found.version) == (size, version)

    def abort_uploads(self) -> None:
        """Remove parts of objects of the set that a killed process has left."""
        abort_uploads(self._path, self._names.form, self._names.before)

    def uploads(self, path: str) -> dict[str, Upload]:
        """Uploads of a file of the set that was made here, by name: what lies beside it, and then itself."""
        names = sorted(_all_files(path), key=lambda name: (name == os.path.basename(path), name))
        return {name: self._objects.upload(name, os.path.join(os.path.dirname(path), name)) for name in names}


def _writer_of(note: bytes | None) -> str:
    with suppress(ValueError, KeyError, TypeError):
        return str(json.loads(note or b"")["writer"])
    return "somebody"


def _all_files(path: str) -> Iterable[str]:
    home = os.path.dirname(path)
    for name in files_beside(path):
        whole = os.path.join(home, name)
        if not os.path.isdir(whole):
            yield name
            continue
        for folder, _, inside in os.walk(whole):
            yield from (os.path.relpath(os.path.join(folder, one), home) for one in inside)


def _send(uploads: Mapping[str, Upload], path: str) -> dict[str, list[Any]]:
    """Send a file of a set and what belongs to it, and remove it here; gives sizes and versions by name."""
    for upload in uploads.values():
        upload.send()
    remove_shard(path)
    return {name: [upload.size_bytes, upload.version] for name, upload in uploads.items()}


def upload_shard(pattern: RemotePath, path: str) -> dict[str, list[Any]]:
    """Upload one file of a set, in the process of a task; what fails is taken back."""
    uploads = StoreShelf(pattern).uploads(path)
    try:
        return _send(uploads, path)
    except BaseException:
        _take_back(uploads)
        raise


def _take_back(uploads: Mapping[str, Upload]) -> None:
    for name, upload in uploads.items():
        with suppress(Exception):
            upload.remove()
        if upload.is_there:
            _log.warning("%s could not be removed; remove it (%s)", upload.url, name)


class UploadedPlace:
    """Makes the files of a set in a hidden folder here, and sends each when it is complete.

    Args:
        log: what is complete.
        shelf: that of the log.
        is_resumed: what was sent stays when something fails, for the next run.
        force: replace objects that there are; with ``is_resumed`` the log has cleared them away.
        check: compares a file with the samples from one number up to another before it is sent.

    Raises:
        FileExistsError: there is such a set, or the note of one, and it is not to be replaced.
    """

    def __init__(
        self, log: ShardLog, shelf: StoreShelf, *, is_resumed: bool, force: bool, check: ShardCheck | None = None
    ) -> None:
        self._log, self._shelf, self._is_resumed, self._check = log, shelf, is_resumed, check
        self._replaced: set[str] = set() if is_resumed else _check_free(log, shelf, force)
        self._waiting: dict[int, tuple[int, int]] | None = {} if self._replaced else None
        if shelf.has_note:
            shelf.abort_uploads()
        self._folder = upload_folder()
        try:
            if self._waiting is None:
                log.save()  # before anything goes or comes: from here on the set is not whole
            if is_resumed:
                log.clear()
        except BaseException:
            self._folder.remove()
            raise
        self._next = log.samples
        self._pool = ThreadPoolExecutor(1, "headrace-upload-shard")
        self._uploads: dict[str, Upload] = {}
        self._sent: set[str] = set()
        self._under_way: tuple[Future[dict[str, list[Any]]], int, int, int] | None = None

    def path(self, number: int) -> str:
        """In the hidden folder."""
        return os.path.join(self._folder.path, os.path.basename(self._shelf.path(number)))

    def keep(self, number: int, samples: int) -> None:
        """Send it, or let it wait for the others."""
        first, self._next = self._next, self._next + samples
        if self._check is not None:
            self._check([self.path(number)], first, first + samples)
        if self._waiting is not None:
            self._waiting[number] = first, samples
        else:
            self._begin(number, first, samples)

    def _begin(self, number: int, first: int, samples: int) -> None:
        self._settle()
        path = self.path(number)
        self._uploads = self._shelf.uploads(path)
        self._sent |= self._uploads.keys()
        self._under_way = self._pool.submit(_send, self._uploads, path), number, first, samples

    def _settle(self) -> None:
        """Wait for what is under way, and note it."""
        if self._under_way is not None:
            future, number, first, samples = self._under_way
            files = future.result()
            self._under_way = None
            self._log.note(number, first, samples, files)

    def finish(self) -> None:
        """Send what waits, remove what is replaced, and then the note."""
        if self._waiting is not None:
            self._log.save()
            for number, (first, samples) in self._waiting.items():
                self._begin(number, first, samples)
        self._settle()
        self._shelf.remove(sorted(self._replaced - self._sent))
        self._log.remove()
        self._close()

    def abort(self) -> None:
        """Take back what was sent; or keep what is noted, for the next run."""
        for upload in self._uploads.values():
            upload.stop()
        try:
            self._take_back()
        except Exception as error:  # the store is gone, or the set has another writer now
            _log.warning("%s: what was uploaded stays there: %s", self._shelf.pattern, error)
        finally:
            self._close()

    def _take_back(self) -> None:
        if self._under_way is not None:
            with suppress(BaseException):
                self._under_way[0].result()
            _take_back(self._uploads)
        if self._is_resumed and self._log.shards:
            return
        self._shelf.check_own()
        self._shelf.remove(sorted(self._sent - self._replaced))
        if self._sent & self._replaced:
            _log.warning("%s: a part of it was replaced; write it again with force", self._shelf.pattern)
        else:
            self._shelf.remove_note()

    def _close(self) -> None:
        self._pool.shutdown()
        self._folder.remove()


def _check_free(log: ShardLog, shelf: StoreShelf, force: bool) -> set[str]:
    """Names of the objects that are replaced."""
    has_note = shelf.read_note() is not None
    if has_note and not force:
        raise FileExistsError(
            f"{shelf.note} says that the set is being written, or that its writer was interrupted. Go on with resume "
            "(--resume), or begin anew with force=True (--force)"
        )
    log.check_new(force=force)
    return set(shelf.existing())


def begin_anew(shelf: StoreShelf, job: Mapping[str, Any], *, force: bool) -> ShardLog:
    """The log of a set of which nothing is there, for tasks that upload its files: what there is goes first."""
    log = ShardLog.begin(shelf, job)
    _check_free(log, shelf, force)
    return log
