"""``headrace.view``: serve datasets to a browser on this machine.

The server has a thread of its own, with an event loop; ``Viewer.close`` ends it from any thread, and closes what the
viewer has opened itself. Datasets that it was given stay open: they are their owner's.
"""

from __future__ import annotations

import contextlib
import errno
import ipaddress
import os
import secrets
import socket
import threading
import webbrowser
from typing import TYPE_CHECKING, Any

from headrace.formats.open import open_dataset
from headrace.loader import Loader
from headrace.registry import require
from headrace.types import Dataset
from headrace.viewer.shelf import Shelf

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType
    from typing import Self

    from headrace.errors import PathLike

__all__ = ["Viewer", "is_this_machine", "view"]

_NEEDED_BY = "the viewer"


def view(
    *targets: Dataset | Loader | PathLike | Sequence[PathLike],
    host: str = "127.0.0.1",
    port: int = 0,
    browser: bool = True,
    **options: Any,
) -> Viewer:
    """Look at datasets in a browser: an overview, a grid of thumbnails, single samples.

    It is served by a thread of this process, to this machine alone, at a URL with a secret in it. Nothing is written.
    Needs the packages of ``headrace[view]``.

    Args:
        *targets: datasets, or what ``headrace.open`` takes: a path, a URL, a pattern, a list of them. Of a loader also
            its pipeline, batches and timings are shown; see ``Loader.view``.
        host: address to listen at. Others than 127.0.0.1 let other machines in, if they know the URL.
        port: to listen at; 0 takes one that is free.
        browser: open the page, where there is a screen.
        **options: for ``headrace.open``.

    Returns:
        The running viewer, with its ``url``. Close it, or use it as a context manager.

    Raises:
        MissingExtraError: starlette or uvicorn is not installed.
        OSError: nobody can listen at this host and port.

    Example:
        >>> import os, tempfile, headrace
        >>> path = os.path.join(tempfile.mkdtemp(), "x.beton")
        >>> headrace.write(path, range(5), fields={"n": headrace.Int()})
        >>> with headrace.view(path, browser=False) as viewer:
        ...     viewer.url.startswith("http://127.0.0.1:")
        True
    """
    for package in ("starlette", "uvicorn"):
        require(package, needed_by=_NEEDED_BY)
    if not targets:
        raise ValueError("there is nothing to view: name a dataset")
    with contextlib.ExitStack() as opened:
        found = [
            one if isinstance(one, Dataset | Loader) else opened.enter_context(open_dataset(one, **options))
            for one in targets
        ]
        viewer = Viewer(Shelf.of(found), _listen(host, port), host=host, owned=opened)
    if browser:
        viewer.open_browser()
    return viewer


def _listen(host: str, port: int) -> socket.socket:
    """A socket that listens; the error says who may be in the way."""
    if not 0 <= port <= 65535:
        raise ValueError(f"port must be from 0 to 65535, got {port}")
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0][0]
        return socket.create_server((host, port), family=family, backlog=128)
    except socket.gaierror:
        raise ValueError(f"host {host!r} is no address of this machine") from None
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            fix = "name another with --port (port=), or leave it out to take one that is free"
            raise OSError(f"port {port} of {host} is in use, perhaps by another viewer; {fix}") from None
        raise OSError(f"cannot listen at {host}, port {port}: {error.strerror}") from None


def is_this_machine(host: str) -> bool:
    """No other machine gets to this address.

    Example:
        >>> is_this_machine("127.0.0.1"), is_this_machine("0.0.0.0")
        (True, False)
    """
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"


class Viewer:
    """A viewer that runs; see ``headrace.view``.

    Args:
        shelf: what is shown; closed with the viewer.
        listening: the socket.
        host: what the socket listens at.
        owned: closes the datasets that the viewer has opened.

    Attributes:
        url: the page, with the secret.
    """

    def __init__(
        self, shelf: Shelf, listening: socket.socket, *, host: str, owned: contextlib.ExitStack | None = None
    ) -> None:
        import uvicorn  # needs its extra

        from headrace.viewer.app import make_gate
        from headrace.viewer.connections import BoundedProtocol
        from headrace.viewer.gate import LOCAL_HOSTS

        self._shelf = shelf
        self._owned = contextlib.ExitStack() if owned is None else owned.pop_all()
        self._listening = listening
        token = secrets.token_urlsafe(18)
        is_open = not is_this_machine(host)
        names = {*LOCAL_HOSTS, host.strip("[]"), *([socket.gethostname(), socket.getfqdn()] if is_open else [])}
        self._gate = make_gate(shelf, token, hosts=names, any_address=is_open)
        self._place = f"http://{_shown_host(host)}:{listening.getsockname()[1]}"
        self.url = f"{self._place}/{token}/"
        config = uvicorn.Config(
            self._gate,
            access_log=False,
            http=BoundedProtocol,
            log_level="critical",  # what fails is answered; requests that are cut off at the end are no failures
            lifespan="off",
            ws="none",
            server_header=False,
            timeout_keep_alive=30,
            timeout_graceful_shutdown=1,
            h11_max_incomplete_event_size=32 << 10,
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._serve, name="headrace-view-server", daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        self._server.run(sockets=[self._listening])

    def open_browser(self) -> bool:
        """Open the page in a browser; False where there is no screen, or no browser."""
        if not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY") or os.environ.get("BROWSER")):
            return False
        ticket = secrets.token_urlsafe(18)
        self._gate.add_ticket(ticket)
        return webbrowser.open(f"{self._place}/{ticket}/")

    def wait(self) -> None:
        """Return when the viewer has ended; an interrupt comes through."""
        while self._thread.is_alive():
            self._thread.join(0.5)

    def close(self) -> None:
        """End the server, and close what the viewer has opened. Does nothing the second time."""
        self._server.should_exit = True
        self._thread.join()
        self._listening.close()
        self._shelf.close()
        self._owned.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Viewer of {', '.join(repr(item.title) for item in self._shelf)} at {self.url}>"


def _shown_host(host: str) -> str:
    """A host for a URL: where the server listens at every address, this machine's name."""
    if host in ("0.0.0.0", "::"):
        return socket.gethostname()
    return f"[{host}]" if ":" in host else host
