"""The server and the proxy do what the other tests believe of them."""

from __future__ import annotations

import contextlib
import time
import urllib.request
from typing import TYPE_CHECKING, Any

import pytest
from tests.remote.fault_proxy import Fault, FaultProxy

if TYPE_CHECKING:
    from tests.remote.conftest import Bucket
    from tests.remote.rclone_server import RcloneServer

BODY = bytes(range(256)) * 4096
START, LENGTH = 1000, 500_000


@pytest.fixture
def store(bucket: Bucket) -> Any:
    (bucket.folder / "x.bin").write_bytes(BODY)
    return _store(bucket)


def _store(bucket: Bucket, **changed: Any) -> Any:
    from obstore.store import S3Store

    return S3Store(bucket.name, retry_config={"max_retries": 0}, **{**bucket.storage_options, **changed})


def _part(store: Any) -> bytes:
    return bytes(store.get_range("x.bin", start=START, length=LENGTH))


def test_ranges_and_what_is_noted(store: Any, proxy: FaultProxy) -> None:
    assert _part(store) == BODY[START : START + LENGTH]
    (exchange,) = proxy.exchanges("x.bin")
    assert (exchange.status, exchange.sent_bytes) == (206, LENGTH)
    assert exchange.range == f"bytes={START}-{START + LENGTH - 1}"
    assert proxy.sent_bytes() == LENGTH


def test_whole_objects_lists_and_writes(store: Any, bucket: Bucket) -> None:
    store.put("folder/y.bin", BODY)
    assert (bucket.folder / "folder/y.bin").read_bytes() == BODY
    assert bytes(store.get("folder/y.bin").bytes()) == BODY
    assert {entry["path"] for entry in store.list().collect()} == {"x.bin", "folder/y.bin"}
    store.delete("x.bin")
    assert not (bucket.folder / "x.bin").exists()


def test_another_version_is_refused(store: Any, bucket: Bucket) -> None:
    old = store.head("x.bin")["e_tag"]
    assert len(store.get("x.bin", options={"if_match": old, "range": (0, 9)}).bytes()) == 9
    (bucket.folder / "x.bin").write_bytes(BODY[1:])
    assert store.head("x.bin")["e_tag"] != old
    with pytest.raises(Exception, match="412"):
        store.get("x.bin", options={"if_match": old, "range": (0, 9)})
    with pytest.raises(Exception, match="already exists"):
        store.put("x.bin", b"", mode="create")


def test_wrong_keys_are_refused(bucket: Bucket) -> None:
    with pytest.raises(Exception, match="SignatureDoesNotMatch"):
        _store(bucket, secret_access_key="another").put("x.bin", b"")


def test_delays_limits_and_silence(store: Any, proxy: FaultProxy) -> None:
    def seconds() -> float:
        start = time.monotonic()
        assert _part(store) == BODY[START : START + LENGTH]
        return time.monotonic() - start

    proxy.latency_s = 0.2
    assert seconds() >= 0.2
    proxy.clear()
    proxy.bytes_per_s = LENGTH * 4
    assert seconds() >= 0.25
    proxy.clear()
    proxy.add(Fault(delay_s=0.3, times=1))
    assert seconds() >= 0.3
    proxy.silence(0.5)
    assert seconds() >= 0.4


@pytest.mark.parametrize("status", [403, 500, 503])
def test_refusals_for_a_while(store: Any, proxy: FaultProxy, status: int) -> None:
    proxy.add(Fault(match="x.bin", status=status, after=1, times=2))
    assert _part(store)
    for _ in range(2):
        with pytest.raises(Exception, match=str(status)):
            _part(store)
    assert _part(store)
    assert [one.status for one in proxy.exchanges("x.bin")] == [206, status, status, 206]


def test_bodies_that_are_cut_short_or_wrong(store: Any, proxy: FaultProxy) -> None:
    proxy.add(Fault(cut_after=1000, times=1))
    with pytest.raises(Exception, match="body"):
        _part(store)
    proxy.clear()
    proxy.add(Fault(short_by=7, times=1))
    assert len(_part(store)) == LENGTH - 7
    proxy.clear()
    proxy.add(Fault(corrupt=True, times=1))
    got = _part(store)
    assert [i for i in range(LENGTH) if got[i] != BODY[START + i]] == [LENGTH // 2]
    assert _part(store) == BODY[START : START + LENGTH]


def test_every_nth_request(store: Any, proxy: FaultProxy) -> None:
    proxy.add(Fault(status=503, every=3, times=2))
    for _ in range(9):
        with contextlib.suppress(Exception):
            _part(store)
    assert [one.status for one in proxy.exchanges()] == [503, 206, 206, 503, 206, 206, 206, 206, 206]


def test_a_plain_web_server_has_the_same_files(store: Any, bucket: Bucket, web: RcloneServer) -> None:
    with urllib.request.urlopen(f"{web.url}/{bucket.name}/x.bin") as answer:
        assert answer.read() == BODY
