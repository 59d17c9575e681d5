"""A file of this machine into an object of a store: in parts, and proven afterwards.

Contract. One thread calls ``send``; it may be interrupted. Another thread reads the file part by part as obstore asks
for them, which sends several at a time: memory holds no more than ``_UNDER_WAY_BYTES``, however large the file is. An
object appears under its name when its last part is there; what fails before, Ctrl-C included, takes the parts back, and
``send`` waits for that. Parts that nobody sees stay in the store where the process is killed, where the network is gone
for good, and where the store refuses the very last part; its owner's rule for incomplete uploads removes them.

An object is proven before ``send`` returns: its size, and its content by what the store itself says about it, the MD5
of the whole or of the parts in the ETag; where it says neither, or another one, all bytes are read back and compared.
"""

from __future__ import annotations

import hashlib
import os
import re
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from headrace.errors import HeadraceError, RemoteError
from headrace.progress import format_count
from headrace.storage.object_store import facts_of
from headrace.storage.store_errors import remote_error

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from headrace.errors import PathLike

__all__ = ["Upload", "parts_of"]

_PART_BYTES = 8 << 20
_MAX_PARTS = 9_000  # stores take 10,000
_STEP_BYTES = 1 << 20
_UNDER_WAY_BYTES = 256 << 20
_MOST_AT_ONCE = 8
_WAIT_S = 0.1
_POLL_S = 0.02
_DRAIN_S, _LET_GO_S = 30.0, 2.0
_TAG = re.compile(r"([0-9a-f]{32})(?:-(\d+))?")


def part_bytes_of(size_bytes: int) -> int:
    """Bytes of a part, so that a file has no more parts than stores take.

    Example:
        >>> part_bytes_of(1 << 30) >> 20, part_bytes_of(1 << 40) >> 20
        (8, 117)
    """
    steps = -(-size_bytes // (_MAX_PARTS * _STEP_BYTES))
    return max(_PART_BYTES, steps * _STEP_BYTES)


def parts_of(size_bytes: int) -> int:
    """How many parts a file is sent in.

    Example:
        >>> parts_of(0), parts_of(8 << 20), parts_of(20 << 20)
        (1, 1, 3)
    """
    return max(1, -(-size_bytes // part_bytes_of(size_bytes)))


class Upload:
    """A file that becomes an object.

    Args:
        store: of obstore.
        key: of the object in the store.
        url: what errors call it.
        path: of the file; nobody changes it meanwhile.

    Attributes:
        parts: how many there are.
        parts_sent: how many of them are in the store, as far as is known.
        is_there: the object is in the store, under its name.
        is_damaged: it has other bytes than were sent.
        version: what the store says of it once it is proven, to tell it from another one; None where it says nothing.

    Example:
        >>> import pathlib, tempfile
        >>> from obstore.store import MemoryStore
        >>> path = pathlib.Path(tempfile.mkdtemp(), "x")
        >>> _ = path.write_bytes(b"hello")
        >>> store = MemoryStore()
        >>> Upload(store, "a/x", "memory://a/x", path).send()
        >>> bytes(store.get("a/x").bytes())
        b'hello'
    """

    def __init__(self, store: Any, key: str, url: str, path: PathLike) -> None:
        self._store, self._key, self.url, self._path = store, key, url, os.fspath(path)
        self.size_bytes = os.path.getsize(self._path)
        self.part_bytes, self.parts = part_bytes_of(self.size_bytes), parts_of(self.size_bytes)
        self._at_once = max(1, min(_MOST_AT_ONCE, _UNDER_WAY_BYTES // self.part_bytes - 1))
        self._handed_over = 0
        self._sent: list[None] = []
        self.is_there = self.is_damaged = False
        self.version: str | None = None
        self._is_stopped, self._has_ended = threading.Event(), threading.Event()
        self._error: BaseException | None = None

    @property
    def parts_sent(self) -> int:
        """How many parts are in the store, as far as is known."""
        return self.parts if self.is_there else len(self._sent)

    def send(self, tell: Callable[[], None] | None = None) -> None:
        """Send the file, and prove that it arrived.

        Args:
            tell: called from time to time, by this thread.

        Raises:
            RemoteError: the store does not take it, or has other bytes than were sent; then ``remove`` it.
        """
        worker = threading.Thread(target=self._work, name="headrace-upload", daemon=True)
        worker.start()
        try:
            while not self._has_ended.wait(_WAIT_S):  # a join that is interrupted takes the thread for ended
                if tell is not None:
                    tell()
        except BaseException:
            self._is_stopped.set()
            self._has_ended.wait()  # parts are taken back; a second Ctrl-C does not wait for that
            raise
        finally:
            if self._has_ended.is_set():
                worker.join()
        if self._error is not None:
            raise self._error
        if tell is not None:
            tell()

    def stop(self) -> None:
        """Let ``send``, in another thread, end soon as if it was interrupted; parts are taken back."""
        self._is_stopped.set()

    def remove(self) -> None:
        """Remove the object if it is there."""
        if self.is_there:
            self._store.delete(self._key)
            self.is_there = False

    def _work(self) -> None:
        try:
            with open(self._path, "rb", buffering=0) as file:
                self._put(file.fileno())
                self.is_there = True
                self._prove(file.fileno())
        except HeadraceError as error:
            self._error = error
        except _StoppedError:
            self._error = KeyboardInterrupt()
        except BaseException as error:  # of obstore, or of the disk
            self._error = failure(self.url, error)
        finally:
            if self._error is not None:
                self._drain(_LET_GO_S)  # a thread of obstore's that does so when the interpreter is gone aborts it
            self._has_ended.set()

    def _put(self, fd: int) -> None:
        if self.parts == 1:
            self._store.put(self._key, self._part(fd, 0), use_multipart=False)
        else:
            self._store.put(
                self._key,
                self._read_parts(fd),
                use_multipart=True,
                chunk_size=self.part_bytes,
                max_concurrency=self._at_once,
            )

    def _read_parts(self, fd: int) -> Iterator[npt.NDArray[np.uint8]]:
        for start in range(0, self.size_bytes, self.part_bytes):
            if self._is_stopped.is_set():
                self._drain(_DRAIN_S)
                raise _StoppedError
            yield self._part(fd, start)

    def _part(self, fd: int, start: int) -> npt.NDArray[np.uint8]:
        part = np.frombuffer(_read(fd, start, min(self.part_bytes, self.size_bytes - start)), np.uint8)
        weakref.finalize(part, self._sent.append, None)  # obstore lets go of it when the store has taken it
        self._handed_over += 1
        return part

    def _drain(self, limit_s: float) -> None:
        """Let parts that are under way arrive, or go: one that arrives after the upload was taken back may stay."""
        end_s = time.monotonic() + limit_s
        while len(self._sent) < self._handed_over and time.monotonic() < end_s:
            time.sleep(_POLL_S)

    def _check_stopped(self) -> None:
        if self._is_stopped.is_set():
            raise _StoppedError

    def _prove(self, fd: int) -> None:
        found = self._store.head(self._key)
        if found["size"] != self.size_bytes:
            raise self._damage(f"it has {format_count(found['size'], 'byte')}, and {self.size_bytes} were sent")
        tag = _TAG.fullmatch((found["e_tag"] or "").strip('"').lower())
        if tag is None or not self._is_tag(tag, fd):
            self._compare(fd)
        self.version = facts_of(self._key, found).version

    def _is_tag(self, tag: re.Match[str], fd: int) -> bool:
        """The ETag is the MD5 of the file, or that of the MD5s of its parts; of an encrypted object it is neither."""
        if tag[2] is None:
            return bool(tag[1] == self._digest(fd, range(0, self.size_bytes, self.part_bytes)).hexdigest())
        if int(tag[2]) != self.parts:
            return False
        sums = [self._digest(fd, [start]).digest() for start in range(0, self.size_bytes, self.part_bytes)]
        return tag[1] == hashlib.md5(b"".join(sums), usedforsecurity=False).hexdigest()

    def _digest(self, fd: int, starts: Any) -> Any:
        digest = hashlib.md5(usedforsecurity=False)
        for start in starts:
            self._check_stopped()
            digest.update(_read(fd, start, min(self.part_bytes, self.size_bytes - start)))
        return digest

    def _compare(self, fd: int) -> None:
        """Read all bytes back."""

        def check(start: int) -> None:
            self._check_stopped()
            size = min(self.part_bytes, self.size_bytes - start)
            if memoryview(self._store.get_range(self._key, start=start, length=size)) != _read(fd, start, size):
                raise self._damage(f"bytes {start} to {start + size - 1} are not what was sent")

        with ThreadPoolExecutor(self._at_once) as pool:
            for _ in pool.map(check, range(0, self.size_bytes, self.part_bytes)):
                pass

    def _damage(self, problem: str) -> RemoteError:
        self.is_damaged = True
        fix = "It was damaged on the way, and is removed. Write it again."
        return RemoteError(self.url, problem=problem, fix=fix)


class _StoppedError(Exception):
    """The caller was interrupted."""


def _read(fd: int, start: int, size: int) -> bytes:
    data = os.pread(fd, size, start)
    while len(data) < size:
        more = os.pread(fd, size - len(data), start + len(data))
        if not more:
            raise OSError(f"the temporary file ends at byte {start + len(data)}, expected {start + size}")
        data += more
    return data


def failure(url: str, error: BaseException) -> BaseException:
    """What a store says as one of our errors."""
    if not isinstance(error, Exception) or (isinstance(error, OSError) and error.errno is not None):
        return error  # of this machine
    return remote_error(url, error, is_written=True)
