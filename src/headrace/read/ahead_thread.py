"""The thread of one pass through the steps of an epoch, which works ahead of whoever reads.

Contract. The thread is begun with its owner, and the owner's ``close`` calls ``end``, which waits for it. Whatever was
not closed is closed when the interpreter exits: threads must not be inside a native call when it goes away.
"""

from __future__ import annotations

import atexit
import threading
import weakref
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["AheadThread"]


class _Owner(Protocol):
    def close(self) -> None: ...


class AheadThread:
    """A thread of an owner that can be closed.

    Args:
        owner: is closed at the latest when the interpreter exits.
        work: what the thread does.
        name: of the thread.
    """

    def __init__(self, owner: _Owner, work: Callable[[], None], name: str) -> None:
        self._owner = weakref.ref(owner)
        self._thread = threading.Thread(target=work, name=name, daemon=True)
        _open.add(owner)
        self._thread.start()

    def end(self) -> None:
        """Wait for it, after the owner has told it to stop; the thread itself does not wait."""
        if threading.current_thread() is not self._thread:
            self._thread.join()
        if (owner := self._owner()) is not None:
            _open.discard(owner)


_open: weakref.WeakSet[_Owner] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    for owner in list(_open):
        owner.close()
