"""The page that checks a dataset: begin, stop, how far it is, what it has found."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.viewer.answers import json_route, plain, post_route, whole_number
from headrace.viewer.verification import MOST_LISTED, Verification

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.routing import Route

    from headrace.viewer.shelf import Shelf

__all__ = ["routes"]

_LISTED = 50
_MOST_PROBLEMS = 1 << 40


def routes(shelf: Shelf) -> list[Route]:
    """``api/verify?d=&at=``, and what is posted: ``api/verify/start`` and ``api/verify/stop``."""
    return [
        json_route("/api/verify", shelf, tell),
        post_route("/api/verify/start", shelf, start),
        post_route("/api/verify/stop", shelf, stop),
    ]


def tell(shelf: Shelf, params: Mapping[str, str]) -> dict[str, Any]:
    """How far the check of a dataset is, and some of the problems."""
    check = _check_of(shelf, params.get("d"))
    at = whole_number(params, "at", 0, _MOST_PROBLEMS, default=0)
    limit = whole_number(params, "limit", 1, MOST_LISTED, default=_LISTED)
    return {**plain(check.facts()), "at": at, "list": plain(check.problems(at, limit))}


def start(shelf: Shelf, body: dict[str, Any]) -> dict[str, Any]:
    """Begin a check; one that runs goes on."""
    check = _check_of(shelf, str(body.get("d", 0)))
    is_new = check.start(decode=body.get("decode") is True)
    return {"started": is_new, **plain(check.facts())}


def stop(shelf: Shelf, body: dict[str, Any]) -> dict[str, Any]:
    """End the check that runs, if one does."""
    check = _check_of(shelf, str(body.get("d", 0)))
    return {"stopped": check.stop(), **plain(check.facts())}


def _check_of(shelf: Shelf, number: str | None) -> Verification:
    item = shelf.pick(number)

    def make() -> Verification:
        check = Verification(item.dataset, damage=item.damage)
        shelf.before_close(check.end)
        return check

    return item.once("verification", make)
