"""Parts that a killed process has left in S3: found and aborted.

obstore neither lists nor aborts uploads that another process has begun, so these two requests are made and signed here
(AWS Signature Version 4). Credentials are those of the options, of their ``credential_provider`` or of the environment.
Where a machine gets them in another way, nothing can be signed, and where a store has no such request, nothing is
answered; then a line in the log says that parts may be left, and the bucket's rule for incomplete uploads removes them.
Google's parts are left to such a rule, too, and Azure forgets its own after a week.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import html
import http
import inspect
import logging
import os
import re
import time
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from headrace.storage.store_errors import shown_url

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from headrace.storage.remote_path import RemotePath

__all__ = ["abort_uploads"]

_log = logging.getLogger("headrace")
_NOTHING = hashlib.sha256(b"").hexdigest()
_TIMEOUT_S = 30
_MAX_BYTES = 16 << 20
_MAX_PAGES = 1000


def abort_uploads(path: RemotePath, names: re.Pattern[str], fixed: str) -> list[str]:
    """Abort uploads of a folder that were begun and not completed; gives the names that they were for.

    Args:
        path: URL of an object in the folder.
        names: of the objects that are meant, relative to the folder.
        fixed: what all of these names begin with.
    """
    if path.scheme != "s3":
        return []
    bucket, _, key = str(path).partition("://")[2].partition("/")
    home = key.rpartition("/")[0]
    home = f"{home}/" if home else ""
    try:
        signer = _Signer.of(path.storage.store, bucket)
        if signer is None:
            raise PermissionError("the credentials are not known here")
        found = [(key, upload) for key, upload in _begun(signer, home + fixed) if names.fullmatch(key[len(home) :])]
        for key, upload in found:
            signer.ask("DELETE", f"/{key}", {"uploadId": upload})
    except (OSError, ValueError) as error:
        if isinstance(error, urllib.error.HTTPError) and error.code == http.HTTPStatus.NOT_FOUND:
            return []  # what some stores say where there are none
        why = f"status {error.code}" if isinstance(error, urllib.error.HTTPError) else str(error)
        _log.info("%s: parts of interrupted uploads may be left: %s", shown_url(path), why)
        return []
    return [key[len(home) :] for key, _ in found]


def _begun(signer: _Signer, prefix: str) -> Iterator[tuple[str, str]]:
    """Keys and numbers of uploads, page by page."""
    more: dict[str, str] = {}
    for _ in range(_MAX_PAGES):
        text = signer.ask("GET", "", {"uploads": "", "prefix": prefix, **more})
        for block in re.findall(r"<Upload>(.*?)</Upload>", text, re.DOTALL):
            yield _value(block, "Key"), _value(block, "UploadId")
        if _value(text, "IsTruncated") != "true":
            return
        more = {"key-marker": _value(text, "NextKeyMarker"), "upload-id-marker": _value(text, "NextUploadIdMarker")}


def _value(text: str, name: str) -> str:
    found = re.search(rf"<{name}>([^<]*)</{name}>", text)
    return html.unescape(found[1]) if found else ""


@dataclass(frozen=True, slots=True)
class _Signer:
    """Makes requests to one bucket."""

    endpoint: str
    region: str
    key_id: str
    secret: str = field(repr=False)
    token: str | None = field(repr=False)

    @classmethod
    def of(cls, options: Mapping[str, Any], bucket: str) -> _Signer | None:
        """None where the credentials are not known, or none are wanted."""
        given = _Given({str(name).lower().removeprefix("aws_"): value for name, value in options.items()})
        region = given.first("region", "default_region") or "us-east-1"
        endpoint = given.first("endpoint", "endpoint_url") or f"https://s3.{region}.amazonaws.com"
        if str(given.first("virtual_hosted_style_request")).lower() != "true":
            endpoint = f"{endpoint.rstrip('/')}/{bucket}"
        keys = _keys_of(given)
        if keys is None or str(given.first("skip_signature")).lower() == "true":
            return None
        return cls(endpoint.rstrip("/"), region, *keys)

    def ask(self, method: str, path: str, query: Mapping[str, str]) -> str:
        """The answer of the store; urllib.error.HTTPError where it refuses."""
        address = urlsplit(self.endpoint)
        where = quote(address.path + path, safe="/-_.~")
        asked = "&".join(f"{quote(name, safe='-_.~')}={quote(query[name], safe='-_.~')}" for name in sorted(query))
        headers = self._signed(method, address.netloc, where, asked)
        url = f"{address.scheme}://{address.netloc}{where}?{asked}"
        request = urllib.request.Request(url, method=method, headers=headers)
        with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as answer:
            return str(answer.read(_MAX_BYTES).decode(errors="replace"))

    def _signed(self, method: str, host: str, path: str, query: str) -> dict[str, str]:
        now = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        scope = f"{now[:8]}/{self.region}/s3/aws4_request"
        headers = {"host": host, "x-amz-content-sha256": _NOTHING, "x-amz-date": now}
        if self.token is not None:
            headers["x-amz-security-token"] = self.token
        names = ";".join(headers)
        lines = [
            method,
            path or "/",
            query,
            *(f"{name}:{value}" for name, value in headers.items()),
            "",
            names,
            _NOTHING,
        ]
        digest = hashlib.sha256("\n".join(lines).encode()).hexdigest()
        key = f"AWS4{self.secret}".encode()
        for part in scope.split("/"):
            key = hmac.digest(key, part.encode(), "sha256")
        signature = hmac.digest(key, "\n".join(["AWS4-HMAC-SHA256", now, scope, digest]).encode(), "sha256").hex()
        credential = f"Credential={self.key_id}/{scope}, SignedHeaders={names}, Signature={signature}"
        return {**headers, "Authorization": f"AWS4-HMAC-SHA256 {credential}"}


class _Given:
    """What options say, or else the environment."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        self.options = options

    def first(self, *names: str) -> str | None:
        for name in names:
            value = self.options.get(name)
            if value is not None:
                return str(value)
        found = (os.environ.get(f"AWS_{name.upper()}") for name in names)
        return next(filter(None, found), None)


def _keys_of(given: _Given) -> tuple[str, str, str | None] | None:
    provider = given.options.get("credential_provider")
    if provider is not None:
        told = _awaited(provider())
        return told["access_key_id"], told["secret_access_key"], told.get("token")
    key_id, secret = given.first("access_key_id"), given.first("secret_access_key")
    token = given.first("session_token", "token")
    return None if key_id is None or secret is None else (key_id, secret, token)


def _awaited(found: Any) -> Any:
    async def wait() -> Any:
        return await found

    return asyncio.run(wait()) if inspect.isawaitable(found) else found
