"""A web server of one object for tests: ranges, versions, and faults on command."""

from __future__ import annotations

import contextlib
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@dataclass
class RangeServer:
    """What the server has, what it was asked for, and what it does wrong."""

    data: bytes
    etag: str | None = '"one"'
    minds_conditions: bool = True
    url: str = ""
    ranges: list[tuple[int, int]] = field(default_factory=list)
    busiest: int = 0  # requests at the same time
    fault: Callable[[int], str | int | None] = lambda number: None
    """What happens to a request by its number: a status, "cut", "short", "long", "stall", "shifted"; None is well."""
    gate: threading.Event = field(default_factory=threading.Event)
    _running: int = 0
    _asked: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.gate.set()

    @property
    def sent_bytes(self) -> int:
        return sum(end - start for start, end in self.ranges)

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        with self._lock:
            self._running += 1
            self.busiest = max(self.busiest, self._running)
            self._asked += 1
            number = self._asked
        try:
            self._answer(handler, self.fault(number))
        finally:
            with self._lock:
                self._running -= 1

    def _answer(self, handler: BaseHTTPRequestHandler, fault: str | int | None) -> None:
        wanted = handler.headers.get("If-Match")
        if fault == "stall":
            self.gate.wait(30)
        if isinstance(fault, int):
            return _reply(handler, fault, b"<Code>Trouble</Code>")
        if self.minds_conditions and wanted is not None and wanted != self.etag:
            return _reply(handler, 412, b"")
        first, _, last = handler.headers.get("Range", "bytes=0-").removeprefix("bytes=").partition("-")
        start, end = int(first), min(int(last) + 1 if last else len(self.data), len(self.data))
        if start >= len(self.data):
            return _reply(handler, 200 if handler.command == "HEAD" else 416, b"")
        with self._lock:
            self.ranges.append((start, end))
        body = self.data[start:end]
        shift = 1 if fault == "shifted" else 0
        headers = {"Content-Range": f"bytes {start + shift}-{end - 1}/{len(self.data)}"}
        if self.etag is not None:
            headers["ETag"] = self.etag
        cut = {"cut": len(body) // 2, "short": len(body) - 1}.get(str(fault), len(body))
        return _reply(handler, 206, body[:cut] + (b"!" if fault == "long" else b""), headers, is_cut=fault == "cut")


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


@contextlib.contextmanager
def serve(data: bytes) -> Iterator[RangeServer]:
    """Start a server, and end it."""
    server = RangeServer(data)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            server.answer(self)

        do_HEAD = do_GET

        def log_message(self, format: str, *args: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: object, client_address: object) -> None:
            pass  # clients go away in the middle of an answer

    web = Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=web.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    server.url = f"http://127.0.0.1:{web.server_address[1]}/folder/x.bin"
    try:
        yield server
    finally:
        server.gate.set()
        web.shutdown()
        thread.join()
        web.server_close()
