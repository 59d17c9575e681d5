"""What stores say, in plain words, without secrets."""

from __future__ import annotations

import time

import pytest

from headrace.errors import RefusedError, RemoteError
from headrace.storage import courier
from headrace.storage.store_errors import remote_error

_BODY = "<Error><Code>{}</Code><Message>{}</Message></Error>"
_SAID = "Error performing GET http://127.0.0.1:9/b/x?sig=0123 in 1ms - Server returned non-2xx status code: "


class PermissionDeniedError(Exception):
    """As obstore's is called."""


class GenericError(Exception):
    """As obstore's is called."""


def test_a_refusal_tells_what_the_store_said() -> None:
    said = _SAID + "403 Forbidden: " + _BODY.format("InvalidAccessKeyId", "No such key.")
    told = remote_error("s3://b/x", PermissionDeniedError(said + "\n\nDebug source: noise"))
    assert isinstance(told, RefusedError)
    assert "(GET http://127.0.0.1:9/b/x: 403 InvalidAccessKeyId: No such key.)" in str(told)
    assert "--storage-option" in str(told)
    assert "0123" not in str(told)


@pytest.mark.parametrize(("status", "code"), [("403 Forbidden", "ExpiredToken"), ("400 Bad Request", "ExpiredToken")])
def test_credentials_that_expired(status: str, code: str) -> None:
    told = remote_error("s3://b/x", GenericError(f"{_SAID}{status}: {_BODY.format(code, 'over')}"))
    assert "the credentials are no longer valid" in str(told)
    assert "Renew them" in str(told)


@pytest.mark.parametrize("is_written", [False, True])
def test_a_bucket_that_is_not_there(is_written: bool) -> None:
    said = f"{_SAID}404 Not Found: {_BODY.format('NoSuchBucket', 'gone')}"
    listed = remote_error("s3://b/", GenericError(said), is_written=is_written)
    assert isinstance(listed, RemoteError)
    assert "the store has no such bucket" in str(listed)
    assert "Check its name, the endpoint and the region" in str(listed)
    read = remote_error("s3://b/x", FileNotFoundError(said))
    assert isinstance(read, FileNotFoundError)
    assert "no such bucket; check its name, endpoint and region" in str(read)
    assert "no such object; check its name" in str(remote_error("s3://b/x", FileNotFoundError("x")))


def test_an_answer_without_words() -> None:
    told = remote_error("s3://b/x", PermissionDeniedError(f"{_SAID}403 Forbidden: "), is_written=True)
    assert "(GET http://127.0.0.1:9/b/x: 403 Forbidden)" in str(told)


def test_the_interpreter_ends_a_moment_after_the_last_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(courier, "_last_end_s", time.monotonic())
    begin_s = time.monotonic()
    courier.end_courier()
    assert time.monotonic() - begin_s >= 0.9 * courier._SETTLED_S
