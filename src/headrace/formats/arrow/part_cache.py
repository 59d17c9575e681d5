"""Parts of columns that were read lately, kept up to a number of bytes.

Contract: any number of threads ask; a part that is not there is loaded by one of them, and the others wait for it. A
forked process begins with an empty cache, for a thread of its parent may have been at work in this one.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.formats.arrow.chunks import Chunk

__all__ = ["PartCache"]

Key: TypeAlias = tuple[str, int]


class PartCache:
    """Chunks by field and number of the part, those used last.

    The newest part of each field is kept however large it is: samples that are read one by one would otherwise read
    it again for each of them.

    Args:
        max_bytes: of all that is kept.
    """

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self._begin()

    def _begin(self) -> None:
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._entries: OrderedDict[Key, tuple[Chunk, int]] = OrderedDict()
        self._newest: dict[str, Key] = {}
        self._loading: dict[Key, threading.Lock] = {}
        self.size_bytes = 0

    def get(self, field: str, part: int, load: Callable[[], tuple[Chunk, int]]) -> Chunk:
        """The chunk; ``load`` gives it, and the bytes that it takes, when it is not here."""
        if self._process != os.getpid():
            self._begin()
        key = (field, part)
        with self._lock:
            found = self._found(key)
            if found is not None:
                return found
            loading = self._loading.setdefault(key, threading.Lock())
        with loading:
            with self._lock:
                found = self._found(key)
            if found is not None:
                return found
            try:
                chunk, size_bytes = load()
                with self._lock:
                    self._keep(key, chunk, size_bytes)
            finally:
                with self._lock:
                    self._loading.pop(key, None)
        return chunk

    def has(self, field: str, part: int) -> bool:
        """The chunk is kept at the moment."""
        return self._process == os.getpid() and (field, part) in self._entries

    def _found(self, key: Key) -> Chunk | None:
        entry = self._entries.get(key)
        if entry is None:
            return None
        self._entries.move_to_end(key)
        self._newest[key[0]] = key
        return entry[0]

    def _keep(self, key: Key, chunk: Chunk, size_bytes: int) -> None:
        self._entries[key] = (chunk, size_bytes)
        self._newest[key[0]] = key
        self.size_bytes += size_bytes
        if self.size_bytes <= self.max_bytes:
            return
        kept = set(self._newest.values())
        for old in [one for one in self._entries if one not in kept]:
            self.size_bytes -= self._entries.pop(old)[1]
            if self.size_bytes <= self.max_bytes:
                return

    def clear(self) -> None:
        """Forget all of it."""
        with self._lock:
            self._entries.clear()
            self._newest.clear()
            self.size_bytes = 0
