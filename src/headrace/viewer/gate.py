"""Who may ask the viewer, and for what: the first thing that sees a request.

Every page lies below a path that begins with a secret; whoever does not know it is told that there is nothing. Pages of
other servers cannot read answers (Host and Origin are checked, and no answer may be framed or embedded), and what the
viewer's own pages may load is the viewer alone.
"""

from __future__ import annotations

import hmac
import ipaddress
import re
from typing import TYPE_CHECKING

from headrace.viewer.answers import MAX_BODY_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["LOCAL_HOSTS", "Gate"]

LOCAL_HOSTS = frozenset({"127.0.0.1", "localhost", "::1"})
_MAX_QUERY_BYTES = 16 << 10
_MAX_AT_A_TIME = 256
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = [
    (b"content-security-policy", _POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
]


class Gate:
    """Lets requests through to an application.

    Args:
        app: what answers; it finds the secret in ``root_path``.
        token: the secret.
        hosts: names under which the server may be asked; addresses that are numbers too, where ``any_address``.
        any_address: the server is open to other machines.
    """

    def __init__(self, app: ASGIApp, *, token: str, hosts: Iterable[str], any_address: bool = False) -> None:
        self._app = app
        self._token = token.encode()
        self._hosts = {host.lower() for host in hosts}
        self._any_address = any_address
        self._tickets: set[bytes] = set()
        self._count = 0

    def add_ticket(self, ticket: str) -> None:
        """Let a path lead to the pages, once: other users of a machine see what a browser is started with."""
        self._tickets.add(ticket.encode())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or let the application answer."""
        if scope["type"] != "http":
            return
        problem = self._problem(scope)
        if problem is None and self._count >= _MAX_AT_A_TIME:
            problem = 503, "too many requests at a time"
        if problem is not None:
            await _refuse(send, *problem)
            return
        first = scope["path"].encode("utf-8", "surrogateescape").split(b"/", 2)[1:2]
        if self._redeem(first[0] if first else b""):
            await _refuse(send, 303, "", [(b"location", b"/" + self._token + b"/")])
            return
        self._count += 1
        try:
            inner = {**scope, "root_path": "/" + self._token.decode()}
            await self._app(inner, _Bounded(receive), _with_headers(send))
        finally:
            self._count -= 1

    def _redeem(self, word: bytes) -> bool:
        if hmac.compare_digest(word, self._token):
            return False
        self._tickets.discard(word)
        return True

    def _problem(self, scope: Scope) -> tuple[int, str] | None:
        headers = {key.lower(): value.decode("latin-1") for key, value in scope["headers"]}
        host = headers.get(b"host", "")
        first = scope["path"].encode("utf-8", "surrogateescape").split(b"/", 2)[1:2]
        known = [self._token, *self._tickets]
        if not self._is_host(host) or not any([hmac.compare_digest((first or [b""])[0], one) for one in known]):
            return 404, "Not Found"
        if not _is_own(headers, host, scope["method"]):
            return 403, "requests of other pages are not answered"
        if scope["method"] not in ("GET", "HEAD", "POST"):
            return 405, "only GET, HEAD and POST"
        if len(scope.get("query_string", b"")) > _MAX_QUERY_BYTES:
            return 414, "the query is too long"
        return _body_problem(headers) if scope["method"] == "POST" else None

    def _is_host(self, header: str) -> bool:
        match = re.fullmatch(r"(\[[0-9a-fA-F:.]+\]|[^:\[\]/@\s]{1,255})(:[0-9]{1,5})?", header)
        if match is None:
            return False
        name = match[1].strip("[]").lower()
        return name in self._hosts or (self._any_address and _is_address(name))


def _is_address(name: str) -> bool:
    """Numbers cannot be made to lead elsewhere, as names can by whoever answers for them."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _is_own(headers: dict[bytes, str], host: str, method: str) -> bool:
    """The request comes from a page of this server, or from the user."""
    origin, site = headers.get(b"origin"), headers.get(b"sec-fetch-site")
    if origin is not None and origin.lower() != f"http://{host.lower()}":
        return False
    is_visit = method in ("GET", "HEAD") and headers.get(b"sec-fetch-mode") == "navigate"
    return site in (None, "same-origin", "none") or (is_visit and headers.get(b"sec-fetch-dest") == "document")


def _body_problem(headers: dict[bytes, str]) -> tuple[int, str] | None:
    if headers.get(b"content-type", "").partition(";")[0].strip().lower() != "application/json":
        return 415, "what is posted must be JSON"
    length = headers.get(b"content-length", "")
    if not re.fullmatch(r"[0-9]{1,9}", length):
        return 411, "the length of what is posted must be given"
    return (413, f"at most {MAX_BODY_BYTES} bytes can be posted") if int(length) > MAX_BODY_BYTES else None


class _Bounded:
    """Receives a body up to the limit; what comes after it is as if the client had gone away."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._left = MAX_BODY_BYTES

    async def __call__(self) -> Message:
        message = await self._receive()
        self._left -= len(message.get("body", b""))
        return message if self._left >= 0 else {"type": "http.disconnect"}


def _with_headers(send: Send) -> Send:
    async def send_more(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message.get("headers", []), *_HEADERS]}
        await send(message)

    return send_more


async def _refuse(send: Send, status: int, text: str, more: Iterable[tuple[bytes, bytes]] = ()) -> None:
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"cache-control", b"no-store"), *more, *_HEADERS]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": text.encode()})
