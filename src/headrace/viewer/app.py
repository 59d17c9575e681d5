"""The application behind the viewer: all pages, behind the gate."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.responses import Response
from starlette.routing import Route

from headrace.viewer import batches, compare, datasets, grid, overview, pictures, sample, seeds, verify
from headrace.viewer.answers import error_answer
from headrace.viewer.gate import LOCAL_HOSTS, Gate

if TYPE_CHECKING:
    from collections.abc import Iterable

    from starlette.requests import Request

    from headrace.viewer.shelf import Shelf

__all__ = ["make_app", "make_gate"]

_STATIC = Path(__file__).parent / "static"
_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_PAGES = (
    datasets,
    overview,
    grid,
    pictures,
    sample,
    seeds,
    batches,
    compare,
    verify,
)
"""Modules with ``routes(shelf)``; a page is a line here, and a module in static/pages."""


def make_app(shelf: Shelf, token: str) -> Starlette:
    """All pages and their data, below a path that begins with the token.

    Args:
        shelf: what is shown.
        token: the secret that every URL begins with.
    """
    gate = Middleware(Gate, token=token, hosts=LOCAL_HOSTS)
    return Starlette(routes=_routes(shelf), middleware=[gate], exception_handlers=_HANDLERS)


def make_gate(shelf: Shelf, token: str, *, hosts: Iterable[str], any_address: bool) -> Gate:
    """The same for a server that is known by other names, with tickets for the browser that is started."""
    app = Starlette(routes=_routes(shelf), exception_handlers=_HANDLERS)
    return Gate(app, token=token, hosts=hosts, any_address=any_address)


def _routes(shelf: Shelf) -> list[Route]:
    found = [route for page in _PAGES for route in page.routes(shelf)]
    return [*found, *_static_routes()]


def _static_routes() -> list[Route]:
    """A route for each file of the pages: what is no file of theirs has no route."""
    files = [file for file in sorted(_STATIC.rglob("*")) if file.suffix in _TYPES]
    routes = [_static_route("/" + file.relative_to(_STATIC).as_posix(), file) for file in files]
    return [_static_route("/", _STATIC / "index.html"), *routes]


def _static_route(path: str, file: Path) -> Route:
    async def answer(request: Request) -> Response:
        return Response(file.read_bytes(), headers={"Cache-Control": "no-cache"}, media_type=_TYPES[file.suffix])

    return Route(path, answer, methods=["GET"])


async def _on_error(request: Request, error: Exception) -> Response:
    return error_answer(error)


_HANDLERS = {HTTPException: _on_error, Exception: _on_error}
