"""A proxy in front of an object store that does on command what networks and stores do on bad days.

Contract: ``start`` listens on the loopback in threads of this process, ``stop`` ends all of them and all connections.
Commands count from the next request or the next piece of a body on. Without commands it only puts right where
rclone's server differs from S3: a range is answered with 206, an If-Match that does not fit and an If-None-Match of an
object that exists with 412. Every request is noted, with the bytes of body that were sent.
"""

from __future__ import annotations

import http.client
import os
import socket
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

__all__ = ["Exchange", "Fault", "FaultProxy"]

PIECE_BYTES = 256 << 10
_HOP = {"connection", "keep-alive", "transfer-encoding", "content-length"}
_CODES = {403: "ExpiredToken", 412: "PreconditionFailed", 500: "InternalError", 503: "SlowDown"}


@dataclass(frozen=True, kw_only=True)
class Fault:
    """What happens to requests.

    Args:
        match: a part of the path of the objects that it befalls, such as ``/bucket/train.beton``.
        methods: of the requests that it befalls.
        after: requests that pass before it begins.
        times: requests that it befalls; None: all, until ``clear``.
        every: only each n-th of the requests.
        delay_s: wait before the answer.
        status: answer this instead of asking the store.
        code: the error's name in that answer; None takes the usual one.
        cut_after: close the connection after so many bytes of the body, at the latest in its middle.
        short_by: leave out so many bytes at the end of the body, and say so in Content-Length.
        corrupt: another byte in the middle of the body.
        then: is called before the store is asked, such as to replace the object.
    """

    match: str = ""
    methods: tuple[str, ...] = ("GET",)
    after: int = 0
    times: int | None = None
    every: int = 1
    delay_s: float = 0.0
    status: int | None = None
    code: str | None = None
    cut_after: int | None = None
    short_by: int = 0
    corrupt: bool = False
    then: Callable[[], object] | None = None


@dataclass
class Exchange:
    """One request and what became of it."""

    method: str
    path: str
    range: str | None
    status: int = 0
    sent_bytes: int = 0
    started_s: float = field(default_factory=time.monotonic)


class FaultProxy:
    """The proxy.

    Args:
        store_port: where the store listens on this machine.
        root: folder of the store's buckets; without it If-None-Match goes by.

    Attributes:
        befell: requests that had a fault.
    """

    def __init__(self, store_port: int, root: Path | None = None) -> None:
        self.store_port = store_port
        self.root = root
        self.latency_s = 0.0
        self.bytes_per_s: float | None = None
        self.stopped = threading.Event()
        self._lock = threading.Lock()
        self._faults: list[tuple[Fault, list[int]]] = []
        self._exchanges: list[Exchange] = []
        self._silent_until = 0.0
        self._free_at = 0.0
        self.befell = 0
        self._server = _Server(("127.0.0.1", 0), _Connection)
        self._server.proxy = self
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    @property
    def url(self) -> str:
        """Where it answers."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def start(self) -> None:
        """Answer from now on."""
        self._thread.start()

    def stop(self) -> None:
        """End all connections and threads."""
        self.stopped.set()
        self._server.shutdown()
        self._thread.join()
        self._server.close_all()

    def add(self, fault: Fault) -> None:
        """A fault from now on; of several that fit, the first counts."""
        with self._lock:
            self._faults.append((fault, [0]))

    def clear(self) -> None:
        """No faults, no limits, nothing noted."""
        with self._lock:
            self._faults.clear()
            self._exchanges.clear()
            self.befell = 0
        self.latency_s, self.bytes_per_s, self._silent_until = 0.0, None, 0.0

    def silence(self, seconds: float) -> None:
        """Not a byte comes out of it for so long, as when the network is gone; connections stay."""
        self._silent_until = time.monotonic() + seconds

    def exchanges(self, match: str = "", methods: tuple[str, ...] = ("GET", "HEAD")) -> list[Exchange]:
        """What was asked for, of paths with this part in them."""
        with self._lock:
            return [one for one in self._exchanges if match in one.path and one.method in methods]

    def sent_bytes(self, match: str = "") -> int:
        """Bytes of bodies that went to clients."""
        return sum(one.sent_bytes for one in self.exchanges(match, ("GET",)))

    def _note(self, exchange: Exchange) -> Fault:
        with self._lock:
            self._exchanges.append(exchange)
            for fault, seen in self._faults:
                if fault.match in exchange.path and exchange.method in fault.methods:
                    seen[0] += 1
                    number = seen[0] - 1 - fault.after
                    last = fault.times is not None and number // fault.every >= fault.times
                    if number >= 0 and number % fault.every == 0 and not last:
                        self.befell += 1
                        return fault
        return Fault()

    def _wait(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while not self.stopped.is_set():
            left = max(end, self._silent_until) - time.monotonic()
            if left <= 0:
                return
            self.stopped.wait(min(left, 0.1))

    def _throttle(self, size: int) -> None:
        rate = self.bytes_per_s
        if rate is None:
            return self._wait(0)
        with self._lock:
            self._free_at = max(self._free_at, time.monotonic()) + size / rate
            wait_s = self._free_at - time.monotonic()
        return self._wait(wait_s)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128
    proxy: FaultProxy

    def __init__(self, *arguments: object) -> None:
        super().__init__(*arguments)  # type: ignore[arg-type]
        self._open: set[socket.socket] = set()

    def get_request(self) -> tuple[socket.socket, object]:
        connection, address = super().get_request()
        self._open.add(connection)
        return connection, address

    def shutdown_request(self, request: socket.socket) -> None:  # type: ignore[override]
        self._open.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that goes away, or is killed, is what the tests are about."""

    def close_all(self) -> None:
        self.server_close()
        for connection in list(self._open):
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue  # its thread was quicker


class _Connection(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server
    _store: http.client.HTTPConnection | None = None
    _answer_open: http.client.HTTPResponse | None = None

    def do_GET(self) -> None:
        self._forward()

    do_HEAD = do_PUT = do_POST = do_DELETE = do_GET

    def finish(self) -> None:
        if self._store is not None:
            self._store.close()
        if self._answer_open is not None:
            self._answer_open.close()
        super().finish()

    def log_message(self, *arguments: object) -> None:
        """Nothing is printed."""

    def _forward(self) -> None:
        proxy = self.server.proxy
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        exchange = Exchange(self.command, unquote(urlsplit(self.path).path), self.headers.get("Range"))
        fault = proxy._note(exchange)
        proxy._wait(proxy.latency_s + fault.delay_s)
        if fault.then is not None:
            fault.then()
        if fault.status is not None:
            return self._refuse(exchange, fault.status, fault.code)
        if self.headers.get("If-None-Match") == "*" and self._exists(exchange.path):
            return self._refuse(exchange, 412)
        return self._answer(exchange, fault, self._ask(body))

    def _exists(self, path: str) -> bool:
        root = self.server.proxy.root
        return root is not None and os.path.isfile(f"{root}{path}")

    def _ask(self, body: bytes) -> http.client.HTTPResponse:
        # A connection that was idle may have been closed by the store: then once more with a new one.
        for attempt in range(2):
            if self._store is None or attempt:
                self._store = http.client.HTTPConnection("127.0.0.1", self.server.proxy.store_port, timeout=120)
            try:
                self._store.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
                for name, value in self.headers.items():
                    if name.lower() not in ("connection", "expect"):
                        self._store.putheader(name, value)
                self._store.endheaders(body or None)
                self._answer_open = self._store.getresponse()
                return self._answer_open
            except (http.client.HTTPException, ConnectionError):
                self._store.close()
        raise ConnectionError("the store does not answer")

    def _answer(self, exchange: Exchange, fault: Fault, answer: http.client.HTTPResponse) -> None:
        status, wanted = answer.status, self.headers.get("If-Match")
        if status in (200, 206) and wanted not in (None, "*", answer.getheader("ETag")):
            self._drop(answer)
            return self._refuse(exchange, 412)
        if status == 200 and answer.getheader("Content-Range") is not None:
            status = 206
        whole = int(answer.getheader("Content-Length") or 0)
        short = whole - (min(fault.short_by, whole) if status in (200, 206) else 0)
        exchange.status = status
        self.send_response_only(status)
        for name, value in answer.getheaders():
            if name.lower() not in _HOP:
                self.send_header(name, value)
        if answer.getheader("Transfer-Encoding") != "chunked":
            self.send_header("Content-Length", str(short))
            self.end_headers()
            self._send_body(exchange, fault, answer, 0 if self.command == "HEAD" else short)
        else:
            body = answer.read()
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
        if not answer.isclosed():
            self._drop(answer)
        return None

    def _drop(self, answer: http.client.HTTPResponse) -> None:
        # The rest of the body is not wanted, so the connection is of no more use.
        answer.close()
        if self._store is not None:
            self._store.close()
        self._store = None

    def _send_body(self, exchange: Exchange, fault: Fault, answer: http.client.HTTPResponse, size: int) -> None:
        proxy = self.server.proxy
        end = size if fault.cut_after is None else min(fault.cut_after, size // 2)
        buffer = memoryview(bytearray(min(PIECE_BYTES, max(size, 1))))
        while exchange.sent_bytes < end and not proxy.stopped.is_set():
            got = answer.readinto(buffer[: min(len(buffer), end - exchange.sent_bytes)])
            if got == 0:
                raise ConnectionError("the store has cut the body")
            middle = size // 2 - exchange.sent_bytes
            if fault.corrupt and 0 <= middle < got:
                buffer[middle] ^= 0x55
            proxy._throttle(got)
            exchange.sent_bytes += got  # before the client has it, so that a test never sees less than it got
            self.wfile.write(buffer[:got])
        if end < size:
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)

    def _refuse(self, exchange: Exchange, status: int, code: str | None = None) -> None:
        exchange.status = status
        name = code or _CODES.get(status, "InternalError")
        text = f"<?xml version='1.0'?><Error><Code>{name}</Code><Message>by the proxy</Message></Error>".encode()
        self.send_response_only(status)
        self.send_header("Content-Type", "application/xml")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(text)
