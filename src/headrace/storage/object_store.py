"""Object stores, through obstore: whole requests with versions, retries and errors in plain words.

Contract: ``locate`` gives the store of a URL, shared by all objects of a bucket that are reached in the same way, and
the object's key in it. Coroutines are run by the courier. Every request is tried again while the store is busy or the
line is cut, for ``retry_timeout`` seconds in all; obstore itself does not, so that what takes too long can be given up
at any moment. Errors are those of ``store_errors``.
"""

from __future__ import annotations

import asyncio
import os
import random
import re
import threading
import time
import weakref
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import parse_qsl, unquote, urlsplit, urlunsplit

from headrace.errors import RemoteError
from headrace.progress import format_count
from headrace.registry import require
from headrace.storage.courier import check_process, finished
from headrace.storage.remote_path import RemotePath
from headrace.storage.store_errors import changed_error, is_passing, remote_error, shown_url

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping

    from headrace.types import Buffer

__all__ = ["Answer", "ObjectFacts", "ObjectStore", "facts_of", "locate"]

T = TypeVar("T")
RETRY_TIMEOUT_S = 120.0
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 5.0
_CLIENT_DEFAULTS = {"connect_timeout": "5s", "read_timeout": "20s", "timeout": "300s"}
_CLIENT_KEYS = {
    "allow_http",
    "allow_invalid_certificates",
    "connect_timeout",
    "default_content_type",
    "default_headers",
    "http1_only",
    "http2_keep_alive_interval",
    "http2_keep_alive_timeout",
    "http2_keep_alive_while_idle",
    "http2_only",
    "pool_idle_timeout",
    "pool_max_idle_per_host",
    "proxy_ca_certificate",
    "proxy_excludes",
    "proxy_url",
    "randomize_addresses",
    "read_timeout",
    "root_certificate",
    "timeout",
    "user_agent",
}
_ENDPOINTS = (
    "endpoint",
    "endpoint_url",
    "aws_endpoint",
    "aws_endpoint_url",
    "base_url",
    "google_base_url",
    "azure_storage_endpoint",
    "azure_endpoint",
)
_ACCOUNTS = ("account_name", "azure_storage_account_name", "azure_account_name")
_SIGNATURE = re.compile(
    r"(?i)x-(amz|goog)-.*|awsaccesskeyid|googleaccessid|key-pair-id|policy|expires|signature|(access_|auth_)?token|auth"
    r"|s(ig|e|p|v|r|t|pr|ip|dd)|sk(oid|tid|t|e|s|v)"
)


@dataclass(frozen=True, slots=True)
class ObjectFacts:
    """What a store says of an object."""

    key: str
    size_bytes: int
    etag: str | None
    modified: str

    @property
    def version(self) -> str | None:
        """What tells this object from another one under the same name; None where the store gives nothing."""
        return self.etag or (f"{self.modified}/{self.size_bytes}" if self.modified else None)

    @property
    def condition(self) -> str | None:
        """What If-Match takes: a weak ETag would never match."""
        return None if self.etag is None or self.etag.startswith("W/") else self.etag


@dataclass(frozen=True, slots=True)
class Answer:
    """Bytes of an object, and what the store says of it."""

    data: Buffer
    facts: ObjectFacts


class ObjectStore:
    """One bucket, container or server.

    Args:
        url: of it, without the key.
        options: what obstore takes for this kind of store, and ``retry_timeout`` in seconds.
    """

    def __init__(self, url: str, options: Mapping[str, Any]) -> None:
        self.url = url
        self._api = require("obstore", needed_by=f"reading {shown_url(url)}")
        given = dict(options)
        self._options = options
        self.retry_timeout_s = _retry_timeout(given)
        self.obstore = _make_store(url, given)
        self._has_answered = False

    @property
    def place(self) -> str:
        """What tells the store from others under the same URL without a query: its server, account, or query.

        Signatures are none of it: they are new every day.
        """
        parts = urlsplit(self.url)
        if parts.scheme in ("http", "https"):
            named = parse_qsl(parts.query, keep_blank_values=True)
            return "&".join(f"{name}={value}" for name, value in named if not _SIGNATURE.fullmatch(name))
        return " ".join(filter(None, (_given(self._options, *names) for names in (_ENDPOINTS, _ACCOUNTS))))

    @cached_property
    def for_writing(self) -> Any:
        """The same for uploads: obstore itself sends a part again, and a slow line has time to send one."""
        check_process()
        given = dict(self._options)
        client = _CLIENT_DEFAULTS | {"read_timeout": _CLIENT_DEFAULTS["timeout"]}
        given["client_options"] = client | dict(given.get("client_options") or {})
        pauses = {"init_backoff": timedelta(seconds=_FIRST_PAUSE_S), "max_backoff": timedelta(seconds=_LONGEST_PAUSE_S)}
        patience = timedelta(seconds=_retry_timeout(given))
        return _make_store(self.url, given, {"max_retries": 1000, "retry_timeout": patience, "backoff": pauses})

    async def get(self, key: str, start: int, end: int, known: ObjectFacts | None = None) -> Answer:
        """Bytes of an object; fewer only when it ends before.

        Args:
            key: of the object.
            start: the first byte.
            end: the byte before which it ends.
            known: the object that it must be; None takes any.

        Raises:
            FileNotFoundError: there is none.
            ChangedError: it is another one than the known.
            RemoteError: the store does not answer, or does not let us in.
        """
        options: dict[str, Any] = {"range": (start, end)}
        if known is not None and known.condition is not None:
            options["if_match"] = known.condition
        url = self.url_of(key)

        async def attempt() -> Answer:
            result = await self._api.get_async(self.obstore, key, options=options)
            facts = facts_of(key, result.meta)
            if known is not None and (facts.size_bytes, facts.version) != (known.size_bytes, known.version):
                raise changed_error(url, "it was replaced")
            expected = (start, min(end, facts.size_bytes))
            if tuple(result.range) != expected:
                raise ConnectionError(f"bytes {result.range} came instead of {expected}")
            return Answer(await _body(result, expected[1] - expected[0]), facts)

        return await self.patiently(url, attempt, is_open=known is not None)

    async def head(self, key: str) -> ObjectFacts:
        """What the store says of an object, without its bytes."""

        async def attempt() -> ObjectFacts:
            return facts_of(key, await self._api.head_async(self.obstore, key))

        return await self.patiently(self.url_of(key), attempt)

    async def list(self, folder: str) -> list[ObjectFacts]:
        """All objects below a folder, which is a key up to a slash, or empty."""

        async def attempt() -> list[ObjectFacts]:
            found = await self._api.list(self.obstore, folder or None, chunk_size=1000).collect_async()
            return [facts_of(meta["path"], meta) for meta in found]

        return await self.patiently(self.url_of(folder), attempt)

    async def put(self, key: str, data: Buffer) -> None:
        """Make an object, in one request or several as obstore sees fit."""

        async def attempt() -> None:
            await self._api.put_async(self.obstore, key, memoryview(data))

        await self.patiently(self.url_of(key), attempt)

    async def delete(self, key: str) -> None:
        """Remove an object."""

        async def attempt() -> None:
            await self._api.delete_async(self.obstore, key)

        await self.patiently(self.url_of(key), attempt)

    def url_of(self, key: str) -> str:
        """The URL of an object, for messages."""
        return f"{shown_url(self.url).rstrip('/')}/{key}"

    async def patiently(self, url: str, attempt: Callable[[], Coroutine[Any, Any, T]], *, is_open: bool = False) -> T:
        """Try again, with pauses, what fails because the store is busy or the line is cut."""
        check_process()
        begin_s, pause_s = time.monotonic(), _FIRST_PAUSE_S
        while True:
            try:
                result = await finished(attempt())
                self._has_answered = True
                return result
            except RemoteError:
                raise
            except Exception as error:
                waited_s = time.monotonic() - begin_s
                is_over = waited_s + pause_s > self.retry_timeout_s
                if is_over or not is_passing(error, self._has_answered):
                    raise remote_error(url, error, is_open=is_open, waited_s=waited_s) from None
            await asyncio.sleep(pause_s * random.uniform(0.5, 1.0))
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)


async def _body(result: Any, size: int) -> Buffer:
    """All bytes of an answer; the server cannot make us take more than we have asked for."""
    if size == 0:
        return b""
    first: Buffer = b""
    got = 0
    async for chunk in result.stream(min_chunk_size=size):
        got += len(chunk)
        first = first or chunk
        if got > size:
            break
    if got != size:
        raise ConnectionError(f"{format_count(got, 'byte')} came, and {size} were asked for")
    return first


def facts_of(key: str, meta: Mapping[str, Any]) -> ObjectFacts:
    """What obstore tells of an object."""
    modified = meta.get("last_modified")
    when = "" if modified is None or modified.year <= 1970 else modified.isoformat()
    return ObjectFacts(key, int(meta["size"]), meta.get("e_tag"), when)


_STORES: weakref.WeakValueDictionary[tuple[Any, ...], ObjectStore] = weakref.WeakValueDictionary()
_STORES_LOCK = threading.RLock()


def locate(path: str | os.PathLike[str]) -> tuple[ObjectStore, str]:
    """The store of a URL, and the key of the object in it.

    Raises:
        ValueError: the URL names no bucket or no object.
        MissingExtraError: obstore is not installed.
    """
    remote = path if isinstance(path, RemotePath) else RemotePath(str(path))
    root, key = _split(str(remote))
    options = remote.storage.store
    name = (root, *sorted((option, repr(value)) for option, value in options.items()))
    with _STORES_LOCK:
        store = _STORES.get(name)
        if store is None:
            store = _STORES[name] = ObjectStore(root, options)
    return store, key


def _split(url: str) -> tuple[str, str]:
    scheme, _, rest = url.partition("://")
    if scheme.lower() in ("http", "https"):
        parts = urlsplit(url)
        root, key = urlunsplit((parts.scheme, parts.netloc, "", parts.query, "")), unquote(parts.path).lstrip("/")
        is_complete = bool(parts.netloc)
    else:
        bucket, _, key = rest.partition("/")
        root, is_complete = f"{scheme.lower()}://{bucket}", bool(bucket)
    if not is_complete:
        raise ValueError(f"{shown_url(url)}: the URL names no bucket or server, such as s3://bucket/train.tar")
    return root, key


def _retry_timeout(options: dict[str, Any]) -> float:
    config = options.pop("retry_config", None) or {}
    given = options.pop("retry_timeout", config.get("retry_timeout", RETRY_TIMEOUT_S))
    seconds = given.total_seconds() if isinstance(given, timedelta) else float(given)
    if not seconds >= 0:
        raise ValueError(f"retry_timeout must be seconds, got {given!r}")
    return seconds


def _make_store(url: str, options: dict[str, Any], retries: Mapping[str, Any] | None = None) -> Any:
    stores = require("obstore.store", needed_by=f"reading {shown_url(url)}")
    client: dict[str, Any] = _CLIENT_DEFAULTS | dict(options.pop("client_options", None) or {})
    client |= {name: options.pop(name) for name in list(options) if name in _CLIENT_KEYS}
    if _is_plain(url, options):
        client.setdefault("allow_http", True)
    scheme, _, name = url.partition("://")
    common: dict[str, Any] = {"client_options": client, "retry_config": retries or {"max_retries": 0}}
    try:
        if scheme in ("http", "https"):
            if options:
                raise ValueError(f"storage_options {', '.join(options)} do not fit {shown_url(url)}")
            return stores.HTTPStore(url, **common)
        kinds = {"s3": stores.S3Store, "gs": stores.GCSStore, "az": stores.AzureStore}
        return kinds[scheme](name, **common, **options)
    except Exception as error:
        if isinstance(error, ValueError):
            raise
        problem = str(error).partition("\n\nDebug source")[0]
        raise ValueError(f"{shown_url(url)}: the store cannot be used with these storage_options: {problem}") from None


def _is_plain(url: str, options: Mapping[str, Any]) -> bool:
    """The address that was given is one without TLS, so the user has chosen it."""
    return url.startswith("http://") or _given(options, *_ENDPOINTS).startswith("http://")


def _given(options: Mapping[str, Any], *names: str) -> str:
    """What is said under one of several names, by an option or by the environment; empty where nothing is."""
    variables = [name.upper() for name in names if name.startswith(("aws_", "azure_", "google_"))]
    values = [options.get(name) for name in names] + [os.environ.get(name) for name in variables]
    return next((str(value) for value in values if value), "")
