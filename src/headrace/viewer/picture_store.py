"""Pictures that the server has made for a page, kept until newer ones take their room, and answers with pictures."""

from __future__ import annotations

import secrets
import threading
from typing import TYPE_CHECKING, NamedTuple

from starlette.responses import Response
from starlette.routing import Route

from headrace.viewer.answers import error_answer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from starlette.requests import Request

    from headrace.viewer.shelf import Shelf

__all__ = ["PictureFile", "PictureStore", "picture_route"]

_MOST_BYTES = 64 << 20


class PictureFile(NamedTuple):
    """A file that a browser shows."""

    data: bytes
    media_type: str


class PictureStore:
    """Pictures by a key that nobody guesses; any thread may put and get.

    Args:
        most_bytes: that all of them may take; the oldest go first.

    Example:
        >>> store = PictureStore(most_bytes=3)
        >>> old, new = store.put(PictureFile(b"ab", "image/png")), store.put(PictureFile(b"cd", "image/png"))
        >>> store.get(new).data
        b'cd'
        >>> store.get(old)
        Traceback (most recent call last):
        LookupError: this picture is not kept any more; load the page again
    """

    def __init__(self, most_bytes: int = _MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._kept: dict[str, PictureFile] = {}
        self._size_bytes = 0
        self._lock = threading.Lock()

    def put(self, file: PictureFile) -> str:
        """Keep a picture; gives its key."""
        key = secrets.token_hex(12)
        with self._lock:
            self._kept[key] = file
            self._size_bytes += len(file.data)
            while self._size_bytes > self._most_bytes and len(self._kept) > 1:
                self._size_bytes -= len(self._kept.pop(next(iter(self._kept))).data)
        return key

    def get(self, key: str) -> PictureFile:
        """A picture that was kept."""
        with self._lock:
            found = self._kept.get(key)
        if found is None:
            raise LookupError("this picture is not kept any more; load the page again")
        return found


def picture_route(path: str, shelf: Shelf, function: Callable[[Shelf, Mapping[str, str]], PictureFile]) -> Route:
    """A route whose answer is a picture that a function makes of the query, in a thread of the shelf."""

    async def answer(request: Request) -> Response:
        try:
            file = await shelf.run(function, shelf, dict(request.query_params))
        except Exception as error:
            return error_answer(error)
        return Response(file.data, headers={"Cache-Control": "no-store"}, media_type=file.media_type)

    return Route(path, answer, methods=["GET"])
