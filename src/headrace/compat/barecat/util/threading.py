"""Values that belong to one thread, or to all."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["SharedLocal", "ThreadLocalStorage", "get_local"]


class SharedLocal:
    """Takes attributes, the same for all threads."""


def get_local(threadsafe: bool) -> Any:
    """Something that takes attributes, for each thread its own if ``threadsafe``."""
    return threading.local() if threadsafe else SharedLocal()


class ThreadLocalStorage:
    """A value that is made when it is first asked for.

    Args:
        threadsafe: each thread has its own.
    """

    def __init__(self, threadsafe: bool) -> None:
        self._local = get_local(threadsafe)

    def get(self, factory: Callable[[], Any]) -> Any:
        """The value, made by ``factory`` if there is none."""
        try:
            return self._local.value
        except AttributeError:
            self._local.value = factory()
            return self._local.value

    def close(self) -> None:
        """Close the value and forget it."""
        value = getattr(self._local, "value", None)
        if value is not None:
            value.close()
            del self._local.value
