"""A small web server with ranges and versions, over the files of a folder; it counts what it is asked for."""

from __future__ import annotations

import contextlib
import http.server
import re
import threading
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["RangeServer", "serve_ranges"]

_RANGE = re.compile(r"bytes=(\d+)-(\d*)")


class RangeServer(http.server.ThreadingHTTPServer):
    """The server; ``requests`` and ``sent_bytes`` count."""

    daemon_threads = True
    folder: Path
    requests = sent_bytes = 0
    refuses_missing = False
    """Answer as stores do that do not let everybody list: 403 where there is nothing."""

    def url(self, name: str) -> str:
        """The address of a file."""
        return f"http://127.0.0.1:{self.server_address[1]}/{name}"


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: RangeServer

    def do_HEAD(self) -> None:
        self.do_GET(is_head=True)

    def do_GET(self, is_head: bool = False) -> None:
        server = self.server
        server.requests += 1
        path = server.folder / unquote(self.path).partition("?")[0].lstrip("/")
        if not path.is_file():
            self._answer(403 if server.refuses_missing else 404, b"", {})
            return
        size = path.stat().st_size
        version = f'"{path.stat().st_mtime_ns}"'
        if self.headers.get("If-Match", version) != version:
            self._answer(412, b"", {})
            return
        facts = {"ETag": version, "Accept-Ranges": "bytes", "Last-Modified": self.date_time_string(1)}
        asked = _RANGE.fullmatch(self.headers.get("Range", ""))
        if asked is None:
            self._answer(200, path.read_bytes(), facts, is_head)
            return
        first, last = int(asked[1]), min(int(asked[2] or size), size - 1)
        if first >= size:
            self._answer(416, b"", {"Content-Range": f"bytes */{size}"})
            return
        facts["Content-Range"] = f"bytes {first}-{last}/{size}"
        with path.open("rb") as file:
            file.seek(first)
            self._answer(206, file.read(last + 1 - first), facts, is_head)

    def _answer(self, status: int, data: bytes, facts: dict[str, str], is_head: bool = False) -> None:
        self.send_response(status)
        for name, value in facts.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if not is_head:
            self.server.sent_bytes += len(data)
            self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        pass


@contextlib.contextmanager
def serve_ranges(folder: Path) -> Iterator[RangeServer]:
    """A server on the loopback, until the block ends."""
    server = RangeServer(("127.0.0.1", 0), partial(_Handler))
    server.folder = folder
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
