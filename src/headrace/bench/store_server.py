"""A small object store for measurements: files of a folder, by GET and HEAD of S3, with ranges.

``python -m headrace.bench.store_server FOLDER LATENCY_MS [BYTES_PER_S]`` answers each line of its input with a line of
JSON that says how it is reached, and ends with its input. Each folder in FOLDER is a bucket. With a rate it sends no
more than that over all connections together, as a network would. It listens on the loopback alone, and takes any
signature: nothing but a benchmark should use it. Bodies go out by sendfile, so that it takes little time.
"""

from __future__ import annotations

import email.utils
import json
import os
import re
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

__all__ = ["main"]

_PIECE, _LIMITED_PIECE = 1 << 20, 1 << 17
_BURST_S = 0.01
_RANGE = re.compile(r"bytes=(\d+)-(\d*)")


class _Network:
    """So many bytes a second for all who ask together; 0 for no limit.

    Every piece gets the time after the one before it. What was not used is not saved up, but for a hundredth of a
    second, by which a sleep may last too long.
    """

    def __init__(self, bytes_per_s: float = 0.0) -> None:
        self._bytes_per_s, self._free_s = bytes_per_s, 0.0
        self._lock = threading.Lock()

    @property
    def piece(self) -> int:
        """How much is sent at once."""
        return _LIMITED_PIECE if self._bytes_per_s else _PIECE

    def wait(self, size: int) -> None:
        """Come back when so many bytes have had the time that they take."""
        if not self._bytes_per_s:
            return
        with self._lock:
            now_s = time.monotonic()
            self._free_s = max(self._free_s, now_s - _BURST_S) + size / self._bytes_per_s
            left_s = self._free_s - now_s
        time.sleep(max(0.0, left_s))


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128
    folder = ""
    latency_s = 0.0
    network = _Network()

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that goes away is none."""


class _Connection(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def log_message(self, *words: object) -> None:
        """Nothing is printed."""

    def do_GET(self) -> None:
        self._answer()

    do_HEAD = do_GET

    def _answer(self) -> None:
        time.sleep(self.server.latency_s)
        root = os.path.realpath(self.server.folder)
        path = os.path.realpath(root + unquote(urlsplit(self.path).path))
        if not path.startswith(root + os.sep) or not os.path.isfile(path):
            self._refuse()
            return
        with open(path, "rb") as file:
            self._send(file.fileno())

    def _refuse(self) -> None:
        text = b"<?xml version='1.0'?><Error><Code>NoSuchKey</Code><Message>it is not there</Message></Error>"
        self.send_response_only(404)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(text)

    def _send(self, fd: int) -> None:
        facts = os.fstat(fd)
        start, end = 0, facts.st_size
        found = _RANGE.fullmatch(self.headers.get("Range", ""))
        if found is not None:
            start = min(int(found[1]), end)
            end = min(int(found[2]) + 1, end) if found[2] else end
        self.send_response_only(200 if found is None else 206)
        self.send_header("Content-Length", str(max(0, end - start)))
        self.send_header("ETag", f'"{facts.st_mtime_ns:x}-{facts.st_size:x}"')
        self.send_header("Last-Modified", email.utils.formatdate(facts.st_mtime, usegmt=True))
        self.send_header("Accept-Ranges", "bytes")
        if found is not None:
            self.send_header("Content-Range", f"bytes {start}-{end - 1}/{facts.st_size}")
        self.end_headers()
        while self.command == "GET" and start < end:
            size = min(self.server.network.piece, end - start)
            self.server.network.wait(size)
            sent = os.sendfile(self.connection.fileno(), fd, start, size)
            if not sent:
                break
            start += sent


def main() -> None:
    """Serve until the input ends."""
    server = _Server(("127.0.0.1", 0), _Connection)
    server.folder, server.latency_s = sys.argv[1], float(sys.argv[2]) / 1e3
    server.network = _Network(float(sys.argv[3]) if len(sys.argv) > 3 else 0.0)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    for _ in sys.stdin:
        endpoint = f"http://127.0.0.1:{server.server_address[1]}"
        print(json.dumps({"endpoint": endpoint, "access_key_id": "bench", "secret_access_key": "bench"}), flush=True)


if __name__ == "__main__":
    main()
