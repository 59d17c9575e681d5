"""A web server for tests: one object, or the files of a folder, with ranges, versions, and faults on command."""

from __future__ import annotations

import contextlib
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

__all__ = ["RangeServer", "serve", "serve_ranges"]


class _Object(NamedTuple):
    size_bytes: int
    etag: str | None
    modified: str | None
    read: Callable[[int, int], bytes]


@dataclass
class RangeServer:
    """What the server has, what it was asked for, and what it does wrong.

    Attributes:
        data: of the one object, which has any name.
        folder: whose files are the objects instead.
        etag: of the one object.
        minds_conditions: answer 412 where If-Match names another version.
        refuses_missing: answer as stores do that do not let everybody list: 403 where there is nothing.
        url: of the one object, or of the folder.
        requests: how many there were.
        ranges: what was sent.
        busiest: requests at the same time.
        fault: what happens to a request by its number: a status, "cut", "short", "long", "stall", "shifted"; None is
            well.
        gate: what "stall" waits for.
    """

    data: bytes = b""
    folder: Path | None = None
    etag: str | None = '"one"'
    minds_conditions: bool = True
    refuses_missing: bool = False
    url: str = ""
    requests: int = 0
    ranges: list[tuple[int, int]] = field(default_factory=list)
    busiest: int = 0
    fault: Callable[[int], str | int | None] = lambda number: None
    gate: threading.Event = field(default_factory=threading.Event)
    _running: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.gate.set()

    @property
    def sent_bytes(self) -> int:
        """Bytes of all ranges."""
        return sum(end - start for start, end in list(self.ranges))

    def url_of(self, name: str) -> str:
        """The address of a file of the folder."""
        return f"{self.url}/{name}"

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        """Answer a request."""
        with self._lock:
            self._running += 1
            self.busiest = max(self.busiest, self._running)
            self.requests += 1
            number = self.requests
        try:
            self._answer(handler, self.fault(number))
        finally:
            with self._lock:
                self._running -= 1

    def _find(self, handler: BaseHTTPRequestHandler) -> _Object | None:
        if self.folder is None:
            return _Object(len(self.data), self.etag, None, lambda start, end: self.data[start:end])
        path = self.folder / unquote(handler.path).partition("?")[0].lstrip("/")
        if not path.is_file():
            return None
        status = path.stat()

        def read(start: int, end: int) -> bytes:
            with path.open("rb") as file:
                file.seek(start)
                return file.read(end - start)

        return _Object(status.st_size, f'"{status.st_mtime_ns}"', handler.date_time_string(1), read)

    def _answer(self, handler: BaseHTTPRequestHandler, fault: str | int | None) -> None:
        if fault == "stall":
            self.gate.wait(30)
        if isinstance(fault, int):
            return _reply(handler, fault, b"<Code>Trouble</Code>")
        found, wanted = self._find(handler), handler.headers.get("If-Match")
        if found is None:
            return _reply(handler, 403 if self.refuses_missing else 404, b"")
        if self.minds_conditions and wanted is not None and wanted != found.etag:
            return _reply(handler, 412, b"")
        return self._send(handler, found, fault)

    def _send(self, handler: BaseHTTPRequestHandler, found: _Object, fault: str | None) -> None:
        asked, size = handler.headers.get("Range"), found.size_bytes
        first, _, last = (asked or "bytes=0-").removeprefix("bytes=").partition("-")
        start, end = int(first), min(int(last) + 1 if last else size, size)
        if start >= size:
            return _reply(handler, 416 if asked else 200, b"", {"Content-Range": f"bytes */{size}"} if asked else {})
        if handler.command != "HEAD":
            with self._lock:
                self.ranges.append((start, end))
        body = found.read(start, end)
        shift = 1 if fault == "shifted" else 0
        facts = {
            "Accept-Ranges": "bytes",
            "Content-Range": f"bytes {start + shift}-{end - 1}/{size}" if asked else None,
            "ETag": found.etag,
            "Last-Modified": found.modified,
        }
        headers = {name: value for name, value in facts.items() if value is not None}
        cut = {"cut": len(body) // 2, "short": len(body) - 1}.get(str(fault), len(body))
        body = body[:cut] + (b"!" if fault == "long" else b"")
        return _reply(handler, 206 if asked else 200, body, headers, is_cut=fault == "cut")


def _reply(
    handler: BaseHTTPRequestHandler,
    status: int,
    body: bytes,
    headers: dict[str, str] | None = None,
    *,
    is_cut: bool = False,
) -> None:
    handler.send_response(status)
    for name, value in (headers or {}).items():
        handler.send_header(name, value)
    handler.send_header("Content-Length", str(2 * len(body) + 1 if is_cut else len(body)))
    handler.end_headers()
    if handler.command != "HEAD":
        with contextlib.suppress(OSError):
            handler.wfile.write(body)
    handler.close_connection = is_cut


class _Web(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request: object, client_address: object) -> None:
        pass  # clients go away in the middle of an answer


@contextlib.contextmanager
def _started(server: RangeServer) -> Iterator[RangeServer]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            server.answer(self)

        do_HEAD = do_GET

        def log_message(self, format: str, *args: object) -> None:
            pass

    web = _Web(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=web.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    server.url = f"http://127.0.0.1:{web.server_address[1]}"
    try:
        yield server
    finally:
        server.gate.set()
        web.shutdown()
        thread.join()
        web.server_close()


@contextlib.contextmanager
def serve(data: bytes) -> Iterator[RangeServer]:
    """A server of one object on the loopback, until the block ends."""
    with _started(RangeServer(data)) as server:
        server.url += "/folder/x.bin"
        yield server


@contextlib.contextmanager
def serve_ranges(folder: Path) -> Iterator[RangeServer]:
    """A server of a folder on the loopback, until the block ends."""
    with _started(RangeServer(folder=folder)) as server:
        yield server
