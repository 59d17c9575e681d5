"""Hostile clients against a real server: what they send is refused, and others are served all the while."""

from __future__ import annotations

import contextlib
import http.client
import socket
import threading
import time
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest
from tests.helpers import picture

import headrace as hr

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.viewer.server import Viewer


@pytest.fixture(scope="module")
def viewer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Viewer]:
    path = tmp_path_factory.mktemp("viewer") / "x.beton"
    samples = [(picture(i, 60, 80), i) for i in range(40)]
    hr.write(path, samples, fields={"image": hr.Image(), "label": hr.Int()})
    with hr.view(path, browser=False) as viewer:
        yield viewer


class Client:
    """Plain sockets to a viewer."""

    def __init__(self, viewer: Viewer) -> None:
        parts = urlsplit(viewer.url)
        assert parts.hostname is not None
        assert parts.port is not None
        self.host, self.port, self.token = parts.hostname, parts.port, parts.path.strip("/")

    def connect(self) -> socket.socket:
        return socket.create_connection((self.host, self.port), timeout=20)

    def say(self, data: bytes, *, is_all: bool = False) -> bytes:
        """Send bytes as they are, and give the answer up to its end; a server may close before it has read all."""
        parts: list[bytes] = []
        with self.connect() as connection, contextlib.suppress(ConnectionError):
            connection.sendall(data)
            if is_all:
                connection.shutdown(socket.SHUT_WR)
            while part := connection.recv(1 << 16):
                parts.append(part)
        return b"".join(parts)

    def ask(self, method: str, path: str, *more: str, body: bytes = b"") -> tuple[int, bytes]:
        """A request with the headers of a browser, and others."""
        known = {line.partition(":")[0].lower() for line in more}
        lines = [f"{method} {path} HTTP/1.1", *more, "Connection: close"]
        if "host" not in known:
            lines.insert(1, f"Host: {self.host}:{self.port}")
        answer = self.say("\r\n".join(lines).encode("utf-8", "surrogateescape") + b"\r\n\r\n" + body)
        head, _, rest = answer.partition(b"\r\n\r\n")
        return int(head.split()[1]) if head else 0, rest

    def is_served(self) -> bool:
        connection = http.client.HTTPConnection(self.host, self.port, timeout=10)
        connection.request("GET", f"/{self.token}/api/datasets")
        answer = connection.getresponse()
        answer.read()
        connection.close()
        return answer.status == 200


@pytest.fixture
def client(viewer: Viewer) -> Iterator[Client]:
    found = Client(viewer)
    yield found
    assert found.is_served(), "the server still answers"


def test_wrong_secrets(client: Client) -> None:
    token = client.token
    for path in (
        "/",
        f"/{token[:-1]}/",
        f"/{token}x/",
        f"/{token.swapcase()}/",
        "/%00/",
        f"/x/../{token}/api/datasets",
    ):
        status, body = client.ask("GET", path)
        assert status == 404, path
        assert b"Not Found" in body
        assert len(body) < 40, "no hint"


@pytest.mark.parametrize(
    "line",
    [
        "Host: evil.example",
        "Host: 127.0.0.1.evil.example",
        "Host: user@127.0.0.1",
        "Host: 127.0.0.1, evil.example",
        "Host: localhost.",
        "Host:",
    ],
)
def test_wrong_hosts(client: Client, line: str) -> None:
    status, body = client.ask("GET", f"/{client.token}/", line)
    assert status in (400, 404)
    assert b"<!doctype" not in body


def test_two_hosts(client: Client) -> None:
    status, body = client.ask("GET", f"/{client.token}/", "Host: evil.example", f"Host: 127.0.0.1:{client.port}")
    assert status in (400, 404)
    assert b"<!doctype" not in body


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "file://", "http://127.0.0.1:1", "https://127.0.0.1"]
)
def test_wrong_origins(client: Client, origin: str) -> None:
    for method, path in (("GET", "api/datasets"), ("POST", "api/verify/start")):
        status, _ = client.ask(
            method,
            f"/{client.token}/{path}",
            f"Origin: {origin}",
            "Content-Type: application/json",
            "Content-Length: 0",
        )
        assert status == 403


def test_requests_of_other_pages(client: Client) -> None:
    """What a browser says when a page of somebody else embeds, posts or fetches."""
    for mode, dest in (("no-cors", "image"), ("no-cors", "script"), ("cors", "empty"), ("navigate", "iframe")):
        lines = ["Sec-Fetch-Site: cross-site", f"Sec-Fetch-Mode: {mode}", f"Sec-Fetch-Dest: {dest}"]
        assert client.ask("GET", f"/{client.token}/", *lines)[0] == 403
    form = ["Sec-Fetch-Site: cross-site", "Content-Type: application/x-www-form-urlencoded", "Content-Length: 1"]
    assert client.ask("POST", f"/{client.token}/api/verify/start", *form, body=b"x")[0] == 403


@pytest.mark.parametrize(
    "method", ["OPTIONS", "PUT", "DELETE", "PATCH", "TRACE", "CONNECT", "PROPFIND", "get", "X" * 50]
)
def test_other_methods(client: Client, method: str) -> None:
    assert client.ask(method, f"/{client.token}/api/datasets")[0] in (400, 404, 405)


def test_posts_to_wrong_places(client: Client) -> None:
    json = ["Content-Type: application/json", "Content-Length: 2"]
    for path in ("", "app.js", "api/datasets", "picture/thumbnail/0/0", "api/compare", "nothing"):
        assert client.ask("POST", f"/{client.token}/{path}", *json, body=b"{}")[0] in (404, 405), path
    for path in ("api/verify/start", "api/verify/stop"):
        assert client.ask("GET", f"/{client.token}/{path}")[0] in (404, 405), path


def test_head_has_no_body(client: Client) -> None:
    for path in ("", "app.js", "api/datasets", "picture/thumbnail/0/0"):
        status, body = client.ask("HEAD", f"/{client.token}/{path}")
        assert (status, body) == (200, b""), path


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b"null", b"[" * 30_000, b'{"d": 1e999}', b'{"d": "' + b"9" * 40_000 + b'"}', b"\xff\xfe"]
)
def test_odd_bodies(client: Client, body: bytes) -> None:
    lines = ["Content-Type: application/json", f"Content-Length: {len(body)}"]
    status, answer = client.ask("POST", f"/{client.token}/api/verify/start", *lines, body=body)
    assert status in (400, 404)
    assert b'"error"' in answer


def test_oversized_bodies(client: Client) -> None:
    path, kind = f"/{client.token}/api/verify/start", "Content-Type: application/json"
    assert client.ask("POST", path, kind, "Content-Length: 999999999", body=b"{}")[0] == 413
    assert client.ask("POST", path, kind, "Content-Length: 99999999999999999999", body=b"{}")[0] in (400, 411, 413)
    assert client.ask("POST", path, kind, "Content-Length: -1", body=b"{}")[0] in (400, 411)
    assert client.ask("POST", path, kind, body=b"{}")[0] == 411
    chunks = b"fffff\r\n" + b"x" * 0xFFFFF + b"\r\n0\r\n\r\n"
    assert client.ask("POST", path, kind, "Transfer-Encoding: chunked", body=chunks)[0] in (400, 411, 0)


def test_oversized_heads(client: Client) -> None:
    assert client.ask("GET", f"/{client.token}/?{'x' * 20_000}")[0] in (400, 414)
    assert client.ask("GET", f"/{client.token}/{'x' * 200_000}")[0] in (0, 400, 404, 414, 431)
    lines = [f"X-Header-{i}: {'y' * 100}" for i in range(2000)]
    assert client.ask("GET", f"/{client.token}/", *lines)[0] in (0, 400, 431)


@pytest.mark.parametrize(
    "path",
    [
        "../../../../etc/passwd",
        "..%2f..%2f..%2fetc%2fpasswd",
        "%2e%2e/%2e%2e/server.py",
        "pages/../../app.py",
        "/etc/passwd",
        "pages//../app.py",
        "app.js%00.html",
        "..\\..\\server.py",
        "static/app.js",
        "pages/",
        "picture/thumbnail/../../../etc/passwd/0",
        "picture/thumbnail/0/0/../../../x",
        "picture/thumbnail/%2fetc%2fpasswd/0",
    ],
)
def test_no_path_leads_out(client: Client, path: str) -> None:
    status, body = client.ask("GET", f"/{client.token}/{path}")
    assert status in (400, 404)
    assert b"root:" not in body
    assert b"import " not in body


@pytest.mark.parametrize(
    "data",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(100),  # TLS
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET /\r\n\r\n",
        b"\0" * 1000,
        b"GET / HTTP/9.9\r\n\r\n",
        b"\r\n" * 500,
        b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /x",
    ],
)
def test_what_is_no_http(client: Client, data: bytes) -> None:
    answer = client.say(data, is_all=True)
    assert b"Traceback" not in answer
    assert not answer or answer.split()[1] in (b"400", b"404")


def test_absolute_addresses_do_not_get_past_the_host(client: Client) -> None:
    status, body = client.ask("GET", f"http://evil.example/{client.token}/", "Host: evil.example")
    assert status in (400, 404)
    assert b"<!doctype" not in body


def test_a_web_socket_is_refused(client: Client) -> None:
    lines = ["Upgrade: websocket", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Version: 13"]
    text = f"GET /{client.token}/ HTTP/1.1\r\nHost: 127.0.0.1:{client.port}\r\nConnection: Upgrade\r\n"
    with client.connect() as connection:
        connection.sendall((text + "\r\n".join(lines) + "\r\n\r\n").encode())
        connection.settimeout(5)
        assert b" 101 " not in connection.recv(200)


def test_slow_and_silent_clients_hold_up_nobody(client: Client) -> None:
    """Some send a byte now and then, some nothing at all, some do not read what they asked for."""
    held = [client.connect() for _ in range(120)]
    try:
        for number, connection in enumerate(held):
            if number % 3 == 1:
                connection.sendall(f"GET /{client.token}/ HTTP/1.1\r\nHost: 127".encode())
            if number % 3 == 2:
                ask = f"GET /{client.token}/app.js HTTP/1.1\r\nHost: 127.0.0.1:{client.port}\r\n\r\n"
                connection.sendall(ask.encode() * 20)
        start_s = time.monotonic()
        for _ in range(5):
            assert client.is_served()
        assert time.monotonic() - start_s < 10
    finally:
        for connection in held:
            connection.close()


def test_idle_connections_leave_room_for_others(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """More than the server keeps, and none of them ever sends anything."""
    monkeypatch.setattr("headrace.viewer.connections._MOST", 40)
    with contextlib.ExitStack() as opened:
        held = [opened.enter_context(client.connect()) for _ in range(100)]
        assert client.is_served()
        assert 0 < sum(map(is_open, held)) <= 41


def is_open(connection: socket.socket) -> bool:
    connection.setblocking(False)
    try:
        return connection.recv(1) != b""
    except BlockingIOError:
        return True
    except ConnectionError:
        return False


def test_a_silent_connection_is_closed(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.viewer.connections._SILENT_S", 0.5)
    ask = f"GET /{client.token}/api/datasets HTTP/1.1\r\nHost: 127.0.0.1:{client.port}\r\n\r\n".encode()
    with client.connect() as silent, client.connect() as slow, client.connect() as used:
        used.sendall(ask)
        assert b" 200 " in used.recv(100)
        slow.sendall(ask[:-5])
        time.sleep(1.5)
        assert not is_open(silent)
        assert not is_open(slow)
        used.setblocking(True)
        used.recv(1 << 16)
        used.sendall(ask)
        assert b" 200 " in used.recv(100)


def test_a_flood_is_answered_or_refused(client: Client) -> None:
    found: list[int] = []

    def ask(i: int) -> None:
        places = [f"/{client.token}/picture/thumbnail/0/{(i + k) % 40}?side=64" for k in range(4)]
        found.extend([client.ask("GET", place)[0] for place in places])

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(60)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(found) == 240
    assert set(found) <= {200, 503}
    assert found.count(200) >= 60
