from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from tests.range_server import serve

from headrace.errors import RemoteError
from headrace.storage import RemotePath, StorageOptions, shown_url
from headrace.storage.courier import run
from headrace.storage.object_store import locate
from headrace.storage.store_errors import is_passing, remote_error

pytest.importorskip("obstore")


def _path(url: str, **options: Any) -> RemotePath:
    return RemotePath(url, StorageOptions(store=options))


def test_objects_of_a_bucket_share_a_store() -> None:
    first, key = locate(_path("s3://bucket/a/b c.tar", skip_signature=True, region="x"))
    assert key == "a/b c.tar"
    assert locate(_path("s3://bucket/z", skip_signature=True, region="x"))[0] is first
    assert locate(_path("s3://bucket/z", skip_signature=True, region="y"))[0] is not first
    assert locate(_path("s3://other/z", skip_signature=True, region="x"))[0] is not first


def test_keys_of_web_addresses_are_decoded() -> None:
    store, key = locate("https://host/a%20b/%C3%BC.tar?signature=0123")
    assert key == "a b/ü.tar"
    assert store.url_of(key) == "https://host/a b/ü.tar"


@pytest.mark.parametrize("url", ["s3:///key", "https:///x"])
def test_a_bucket_is_needed(url: str) -> None:
    with pytest.raises(ValueError, match="names no bucket"):
        locate(url)


def test_unknown_options_are_named() -> None:
    with pytest.raises(ValueError, match="colour"):
        locate(_path("s3://bucket/x", colour="red"))
    with pytest.raises(ValueError, match="colour"):
        locate(_path("https://host/x", colour="red"))


@pytest.mark.parametrize(
    ("options", "seconds"),
    [({}, 120), ({"retry_timeout": "7"}, 7), ({"retry_config": {"retry_timeout": timedelta(seconds=9)}}, 9)],
)
def test_how_long_is_tried(options: dict[str, Any], seconds: float) -> None:
    assert locate(_path("https://host/x", **options))[0].retry_timeout_s == seconds


def test_head_says_size_and_version() -> None:
    with serve(b"abcdef") as server:
        store, key = locate(server.url)
        facts = run(lambda: store.head(key))
        assert (facts.size_bytes, facts.version, facts.condition) == (6, '"one"', '"one"')


def test_a_server_without_tls_is_used_when_its_address_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    with serve(b"abcdef") as server:
        endpoint = server.url.rpartition("/folder")[0]
        options = {"skip_signature": True, "region": "x"}
        for path in (_path("s3://folder/x.bin", endpoint=endpoint, **options), None):
            monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
            store, key = locate(path or _path("s3://folder/x.bin", **options))
            assert bytes(memoryview(run(lambda: store.get(key, 1, 4)).data)) == b"bcd"  # noqa: B023


class GenericError(Exception):
    """Called as obstore's."""


@pytest.mark.parametrize(
    ("text", "is_told_at_once"),
    [
        ("Server returned non-2xx status code: 503 Service Unavailable: ", False),
        ("Server returned non-2xx status code: 429 Too Many Requests: ", False),
        ("Server returned non-2xx status code: 400 Bad Request: <Code>ExpiredToken</Code>", True),
        ("HTTP error: error sending request", False),
        ("HTTP error: request or response body error", False),
        ("HTTP error: builder error", True),
        ("Error performing PUT http://169.254.169.254/latest/api/token in 1s - HTTP error", True),
    ],
)
def test_what_passes_and_what_does_not(text: str, is_told_at_once: bool) -> None:
    assert is_passing(GenericError(text), has_answered=False) is not is_told_at_once
    assert isinstance(remote_error("s3://bucket/x", GenericError(text)), RemoteError)


def test_an_answer_that_once_came_may_come_again() -> None:
    assert is_passing(GenericError("http://169.254.169.254/latest/api/token: timed out"), has_answered=True)


def test_messages_say_what_to_do() -> None:
    expired = remote_error("s3://bucket/x", GenericError("status code: 400 Bad Request: <Code>ExpiredToken</Code>"))
    assert "no longer valid" in str(expired)
    missing = remote_error("s3://bucket/x", GenericError("PUT http://169.254.169.254/ status code: 403 Forbidden"))
    assert "skip_signature" in str(missing)


def test_secrets_are_not_shown() -> None:
    error = GenericError("Error performing GET http://me:pass@host/x?sig=abc in 1s\n\nDebug source:\nsig=abc")
    assert "abc" not in str(remote_error("http://me:pass@host/x?sig=abc", error))
    assert "pass" not in str(remote_error("http://me:pass@host/x?sig=abc", error))
    assert shown_url("s3://bucket/a?b") == "s3://bucket/a?b"
