"""Requests to S3 that obstore cannot make, signed by hand (AWS Signature Version 4)."""

from __future__ import annotations

import hashlib
import hmac
import re
import time
import urllib.error
import urllib.request
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from tests.remote.rclone_server import ACCESS_KEY, SECRET_KEY

if TYPE_CHECKING:
    from tests.remote.conftest import Bucket

__all__ = ["unfinished_uploads"]

_EMPTY = hashlib.sha256(b"").hexdigest()


def unfinished_uploads(bucket: Bucket) -> list[str]:
    """The keys of multipart uploads that were begun and neither completed nor aborted."""
    host = urlsplit(bucket.endpoint).netloc
    now = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    scope = f"{now[:8]}/us-east-1/s3/aws4_request"
    headers = {"host": host, "x-amz-content-sha256": _EMPTY, "x-amz-date": now}
    signed = ";".join(headers)
    lines = ["GET", f"/{bucket.name}", "uploads=", *(f"{name}:{value}" for name, value in headers.items()), "", signed]
    request = hashlib.sha256("\n".join([*lines, _EMPTY]).encode()).hexdigest()
    key = f"AWS4{SECRET_KEY}".encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    signature = hmac.digest(key, "\n".join(["AWS4-HMAC-SHA256", now, scope, request]).encode(), "sha256").hex()
    credential = f"AWS4-HMAC-SHA256 Credential={ACCESS_KEY}/{scope}, SignedHeaders={signed}, Signature={signature}"
    asked = urllib.request.Request(
        f"{bucket.endpoint}/{bucket.name}?uploads", headers={**headers, "Authorization": credential}
    )
    try:
        with urllib.request.urlopen(asked, timeout=30) as answer:
            text = answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            if b"NoSuchUpload" not in error.read():  # what rclone says where there never was one
                raise
        return []
    assert "ListMultipartUploadsResult" in text
    return re.findall(r"<Upload>.*?<Key>(.*?)</Key>", text, re.DOTALL)
