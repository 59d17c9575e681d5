"""Connections of the server: how many there are, and how long one may stay silent.

Whoever connects needs no secret for it, so connections without a request are bounded: each is closed after a while, and
where there are too many, the oldest of them makes room. The event loop calls all methods.
"""

from __future__ import annotations

import resource
import time
from typing import TYPE_CHECKING, cast

from uvicorn.protocols.http.h11_impl import H11Protocol

if TYPE_CHECKING:
    import asyncio

__all__ = ["BoundedProtocol"]

_MOST = 512
_SILENT_S = 15.0


def _most_connections() -> int:
    """Half of the files that the process may have open, so that datasets can still be read."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _MOST if soft < 0 else max(8, min(_MOST, soft // 2))


class BoundedProtocol(H11Protocol):
    """HTTP as uvicorn speaks it, for clients that nobody knows."""

    _silent: asyncio.TimerHandle | None = None
    _since_s = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a connection, and the place of a silent one where there are too many."""
        super().connection_made(transport)
        if len(self.connections) > _most_connections() and not self._make_room():
            transport.abort()
            return
        self._wait_for_request()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget it."""
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take what came; a request that comes in small pieces has no more time than one that does not come."""
        super().data_received(data)
        if self._is_silent:
            self._wait_for_request()
        else:
            self._stop_waiting()

    @property
    def _is_silent(self) -> bool:
        """No request is being answered."""
        return self.cycle is None or self.cycle.response_complete

    def _wait_for_request(self) -> None:
        if self._silent is None:
            self._since_s = time.monotonic()
            self._silent = self.loop.call_later(_SILENT_S, self._give_up)

    def _stop_waiting(self) -> None:
        if self._silent is not None:
            self._silent.cancel()
            self._silent = None

    def _give_up(self) -> None:
        if self._is_silent and not self.transport.is_closing():
            self.transport.abort()

    def _make_room(self) -> bool:
        """Close the connection that has been silent for longest; False where there is none."""
        others = [cast("BoundedProtocol", one) for one in self.connections if one is not self]
        silent = [one for one in others if one._silent is not None and not one.transport.is_closing()]
        if not silent:
            return False
        min(silent, key=lambda one: one._since_s).transport.abort()
        return True
