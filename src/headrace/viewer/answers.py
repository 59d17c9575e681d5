"""Answers to requests: values of files as JSON that no page has to fear, and errors as a line of text.

Everything that comes from a file is bounded here: in length, in depth, and in what a number may be.
"""

from __future__ import annotations

import json
import math
import re
from typing import TYPE_CHECKING, Any

import numpy as np
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Route

from headrace.errors import HeadraceError
from headrace.progress import format_count
from headrace.viewer.shelf import BusyError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from starlette.requests import Request

    from headrace.viewer.shelf import Shelf

__all__ = [
    "MAX_BODY_BYTES",
    "error_answer",
    "json_answer",
    "json_route",
    "message_of",
    "plain",
    "post_route",
    "whole_number",
]

MAX_BODY_BYTES = 64 << 10
_MAX_TEXT = 10_000
_MAX_ITEMS = 10_000
_MAX_DEPTH = 12
_MAX_VALUES = 200_000  # of one answer
_EXACT = 2**53  # whole numbers above are not exact in JavaScript
_ERRORS = (HeadraceError, OSError, ValueError, TypeError, LookupError, ArithmeticError, MemoryError, RecursionError)
_HIDDEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]")


def plain(value: Any) -> Any:
    """A value as JSON can hold it and a page can show it; what is too long is cut, and says so.

    Numbers that are none, or too large for JavaScript, become text; bytes become hexadecimal digits; characters that
    are not seen, or turn the direction of a text, are shown as escapes.

    Example:
        >>> plain({"a": float("nan"), "b": 2**60, "c": b"ab", "d": np.float32(0.5)})
        {'a': 'nan', 'b': '1152921504606846976', 'c': '6162', 'd': 0.5}
    """
    return _Plain().of(value, 0)


def shown_text(text: str, limit: int = _MAX_TEXT) -> str:
    r"""Text as a page shows it.

    Example:
        >>> shown_text("a\u202eb"), shown_text("abcdef", 3)
        ('a\\u202eb', 'abc… (6 characters)')
    """
    cut = text if len(text) <= limit else f"{text[:limit]}… ({len(text):,} characters)"
    return _HIDDEN.sub(lambda match: match[0].encode("unicode_escape", "surrogatepass").decode(), cut)


class _Plain:
    """Counts the values of one answer, so that a nest of small lists is bounded, too."""

    def __init__(self) -> None:
        self._left = _MAX_VALUES

    def of(self, value: Any, depth: int) -> Any:
        self._left -= 1
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, str):
            return shown_text(value)
        if isinstance(value, int | np.integer):
            return int(value) if abs(int(value)) <= _EXACT else str(int(value))[:_MAX_TEXT]
        if isinstance(value, float | np.floating):
            return float(value) if math.isfinite(value) else str(float(value))
        if isinstance(value, np.bool_):
            return bool(value)
        if isinstance(value, bytes | bytearray | memoryview):
            data = bytes(value[: _MAX_TEXT // 2])
            return data.hex() if len(data) == len(value) else f"{data.hex()}… ({format_count(len(value), 'byte')})"
        if depth >= _MAX_DEPTH or self._left <= 0:
            return "…"
        return self._many(value, depth + 1)

    def _many(self, value: Any, depth: int) -> Any:
        if isinstance(value, np.ndarray):
            value = value.reshape(-1)[:_MAX_ITEMS].tolist() if value.ndim > 1 else value[:_MAX_ITEMS].tolist()
        if isinstance(value, dict):
            items = list(value.items())[:_MAX_ITEMS]
            return {shown_text(str(key), 500): self.of(one, depth) for key, one in items if self._left > 0}
        if isinstance(value, list | tuple):
            return [self.of(one, depth) for one in value[:_MAX_ITEMS] if self._left > 0]
        return shown_text(str(value))


def json_answer(value: Any, status: int = 200) -> Response:
    """A plain value as an answer that is not kept anywhere."""
    data = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    return Response(data, status, {"Cache-Control": "no-store"}, "application/json")


def message_of(error: BaseException) -> str:
    """What an error says, in one line."""
    if isinstance(error, KeyError) and error.args:
        return shown_text(str(error.args[0]), 2000)
    if isinstance(error, MemoryError):
        return "there is not enough memory for this"
    if isinstance(error, RecursionError):
        return "values are nested too deeply"
    if isinstance(error, TimeoutError) and not str(error):
        return "it took too long, and was given up"
    return shown_text(str(error) or type(error).__name__, 2000)


def error_answer(error: BaseException) -> Response:
    """An error as ``{"error": text}``; what nobody foresaw says no more than its kind."""
    if isinstance(error, HTTPException):
        return json_answer({"error": error.detail}, error.status_code)
    if isinstance(error, TimeoutError | BusyError):
        return json_answer({"error": message_of(error)}, 503)
    if not isinstance(error, _ERRORS):
        return json_answer({"error": f"the viewer failed: {type(error).__name__}"}, 500)
    missing = isinstance(error, LookupError | FileNotFoundError)
    return json_answer({"error": message_of(error)}, 404 if missing else 400)


def json_route(path: str, shelf: Shelf, function: Callable[[Shelf, Mapping[str, str]], Any]) -> Route:
    """A route whose answer is what a function makes of the query, in a thread of the shelf.

    The function gives what JSON can hold; what comes from a file has gone through ``plain``.
    """

    async def answer(request: Request) -> Response:
        try:
            return json_answer(await shelf.run(function, shelf, _parameters(request)))
        except Exception as error:
            return error_answer(error)

    return Route(path, answer, methods=["GET"])


def post_route(path: str, shelf: Shelf, function: Callable[[Shelf, dict[str, Any]], Any]) -> Route:
    """The same for what changes something on the server: the function gets the body, an object of JSON."""

    async def answer(request: Request) -> Response:
        try:
            return json_answer(await shelf.run(function, shelf, await _body(request)))
        except Exception as error:
            return error_answer(error)

    return Route(path, answer, methods=["POST"])


def _parameters(request: Request) -> dict[str, str]:
    return {**request.query_params, **{key: str(value) for key, value in request.path_params.items()}}


async def _body(request: Request) -> dict[str, Any]:
    try:
        value = json.loads(await request.body())
    except (ValueError, RecursionError):
        raise ValueError("the body must be JSON") from None
    if not isinstance(value, dict):
        raise ValueError(f"the body must be an object of JSON, got {type(value).__name__}")
    return value


def whole_number(params: Mapping[str, str], name: str, least: int, most: int, default: int | None = None) -> int:
    """A whole number of a request; ValueError when it is none, is missing, or is out of range.

    Example:
        >>> whole_number({"i": "7"}, "i", 0, 10), whole_number({}, "i", 0, 10, default=3)
        (7, 3)
    """
    text = params.get(name)
    if text is None and default is not None:
        return default
    if text is None or not re.fullmatch(r"-?[0-9]{1,18}", text) or not least <= int(text) <= most:
        raise ValueError(f"{name} must be a whole number from {least} to {most}, got {(text or '')[:60]!r}")
    return int(text)
