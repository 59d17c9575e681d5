"""What went wrong between us and a store, in plain words, without secrets."""

from __future__ import annotations

import re

from headrace.errors import ChangedError, RefusedError, RemoteError, shown_url

__all__ = ["is_passing", "remote_error", "shown_url"]

_MOST = 300  # characters of what a store says
_ADDRESS = re.compile(r"\bhttps?://[^\s,\"')]+")
_CODE = re.compile(r"<Code>([^<]+)</Code>")
_WORDS = re.compile(r"<Message>([^<]+)")
_ASKED = re.compile(r"\b(?:GET|HEAD|PUT|POST|DELETE) https?://[^\s?]+")
_STATUS = re.compile(r"status(?: code)?: (\d{3})")
_SECRET = re.compile(r"(?i)\b(signature|token|key|secret|sig|password)=[^\s&]+")
_PASSING_STATUS = {408, 425, 429}  # and those from 500 on
_LASTING = (
    "builder error",  # an address that cannot be used, such as http:// without allow_http
    "Wanted range starting at",
    "Configuration",
    "Missing",
    "not be parsed",
    "invalid",
)
_LASTING_STATUS = {501, 505}
_NO_CREDENTIALS = ("169.254.169.254", "metadata.google.internal", "No credentials", "MissingCredentials")
_NO_BUCKET = ("NoSuchBucket", "ContainerNotFound", "bucket does not exist", "container does not exist")
_EXPIRED = ("ExpiredToken", "has expired", "RequestTimeTooSkewed", "TokenRefreshRequired", "invalid_grant")


def _said(error: BaseException) -> str:
    """What a store says, in one line: its own words where there are some, or else the first sentence of obstore."""
    text = str(error).partition("\n\nDebug source")[0]
    code, words, asked = (form.search(text) for form in (_CODE, _WORDS, _ASKED))
    answer = text.partition("status code: ")[2].rstrip(": ")
    if code is not None:
        answer = f"{_status_of(error) or ''} {code[1]}{f': {words[1]}' if words else ''}".strip()
    if asked is not None and answer:
        text = f"{asked[0]}: {answer}"
    text = _ADDRESS.sub(lambda found: shown_url(found[0]), text)
    text = " ".join(_SECRET.sub(r"\1=...", text).split())
    return text if len(text) <= _MOST else text[: _MOST - 3] + "..."


def _status_of(error: BaseException) -> int | None:
    found = _STATUS.search(str(error))
    return int(found[1]) if found else None


def is_passing(error: BaseException, has_answered: bool) -> bool:
    """Another attempt may help: the store is busy, or the line was cut.

    Args:
        error: of obstore.
        has_answered: the store has let us in before.
    """
    if type(error).__name__ not in ("GenericError", "JoinError", "TimeoutError"):
        return isinstance(error, ConnectionError)
    status = _status_of(error)
    if status is not None:
        return (status >= 500 and status not in _LASTING_STATUS) or status in _PASSING_STATUS
    text = _said(error)
    if any(word in text for word in _NO_CREDENTIALS):
        return has_answered
    return not any(word in text for word in _LASTING)


def remote_error(
    url: str, error: BaseException, *, is_open: bool = False, is_written: bool = False, waited_s: float = 0.0
) -> OSError:
    """The exception that is raised for one of obstore.

    Args:
        url: of the object.
        error: what obstore raised.
        is_open: the object was there before.
        is_written: it is written, and not read.
        waited_s: for so long it was tried again and again.
    """
    where, kind, text = shown_url(url), type(error).__name__, _said(error)
    status = _status_of(error)
    if is_open and (kind in ("PreconditionError", "FileNotFoundError") or status == 416 or "Wanted range" in text):
        return changed_error(url, "it was deleted" if kind == "FileNotFoundError" else "it was replaced")
    what = "bucket" if is_written or any(word in text for word in _NO_BUCKET) else "object"
    if kind == "FileNotFoundError" and not is_written:
        advice = {"bucket": "its name, endpoint and region", "object": "its name; upper and lower case count"}[what]
        return FileNotFoundError(2, f"the store has no such {what}; check {advice}", where)
    if kind == "FileNotFoundError" or any(word in text for word in _NO_BUCKET):
        fix = "Check its name, the endpoint and the region; or make it."
        return RemoteError(where, problem=f"the store has no such bucket ({text})", fix=fix)
    if any(word in text for word in _NO_CREDENTIALS):
        return RemoteError(
            where,
            problem=f"no credentials were found ({text})",
            fix="Give them by the environment, by storage_options= or --storage-option; to read from a public bucket, "
            "skip_signature=true.",
        )
    if any(word in text for word in _EXPIRED):
        return RemoteError(
            where,
            problem=f"the credentials are no longer valid ({text})",
            fix="Renew them and go on where you were; credentials that last are renewed by a credential_provider in "
            "storage_options.",
        )
    if kind in ("PermissionDeniedError", "UnauthenticatedError") or status in (401, 403):
        return RefusedError(
            where,
            problem=f"the store does not let us in ({text})",
            fix="Check the credentials (environment, storage_options= or --storage-option) and that they may "
            + ("write there, list objects and remove them." if is_written else "read this object; ")
            + ("" if is_written else "some stores say the same of an object that does not exist."),
        )
    if kind == "NotSupportedError":
        return RemoteError(
            where,
            problem=f"the server cannot do what is needed ({text})",
            fix="Objects are read in ranges of bytes; use a server that has them, or a copy on a local disk.",
        )
    if "builder error" in text:
        return RemoteError(
            where,
            problem=f"the address cannot be used ({text})",
            fix="For a server without TLS, give allow_http=True in storage_options.",
        )
    tried = f" for {waited_s:.0f} s" if waited_s >= 1 else ""
    problem = f"the store did not answer as it should{tried} ({text})"
    again = "write it again" if is_written else "go on where you were"
    found = RemoteError(where, problem=problem, fix=f"Check the network and the store, and {again}.")
    found.status = status
    return found


def changed_error(url: str, what: str) -> ChangedError:
    """An object is not the one that was opened."""
    fix = "Objects that are in use must stay as they are: write new ones under new names, and open it again."
    return ChangedError(shown_url(url), problem=f"the object changed while it was in use: {what}", fix=fix)
