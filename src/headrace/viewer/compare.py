"""The page with two datasets side by side: rows, one row in full, pictures of what differs."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, get_args

from starlette.responses import Response
from starlette.routing import Route

from headrace.errors import HeadraceError
from headrace.formats.thumbnails import small_picture
from headrace.viewer.answers import (
    error_answer,
    json_answer,
    json_route,
    message_of,
    plain,
    post_route,
    whole_number,
)
from headrace.viewer.dataset_pair import MOST_ROWS, DatasetPair, Show
from headrace.viewer.pairing import By
from headrace.viewer.pixel_difference import amplified, amplify_by, marked, measure_pixels, png_of
from headrace.viewer.value_difference import TooLargeError, count_pixels, fit_pixels, pixels_of, room_for_pixels

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.requests import Request

    from headrace.viewer.field_pairs import FieldPair
    from headrace.viewer.pixel_difference import Pixels
    from headrace.viewer.shelf import Shelf

__all__ = ["PairTable", "draw", "routes"]

_ROWS = 24
_MOST_ROW = 1 << 40
_MOST_PAIRS = 4
_LEAST_SIDE, _SIDE, _MOST_SIDE = 8, 1024, 2048
_MOST_FACTOR = 128
_MOST_LEVEL = 255
_DRAWN = ("first", "second", "difference", "marks")


class PairTable:
    """The pairs of datasets that pages have asked for; those of the longest ago are forgotten first.

    Args:
        shelf: where the datasets are.
    """

    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf
        self._pairs: OrderedDict[tuple[str, str, str], DatasetPair] = OrderedDict()
        self._lock = threading.Lock()
        shelf.before_close(self.close)

    def pick(self, params: Mapping[str, Any]) -> DatasetPair:
        """The pair that a request names: ``a``, ``b`` and ``by``."""
        names = [str(params.get(name, default)) for name, default in (("a", "0"), ("b", "1"))]
        a, b = (self._shelf.pick(name).dataset for name in names)
        by = _choice(params, "by", ("", *get_args(By)))
        key = (str(int(names[0])), str(int(names[1])), by)
        with self._lock:
            if key not in self._pairs:
                self._pairs[key] = DatasetPair(a, b, by=by or None)  # type: ignore[arg-type]
            self._pairs.move_to_end(key)
            found = self._pairs[key]
            old = [self._pairs.popitem(last=False)[1] for _ in range(len(self._pairs) - _MOST_PAIRS)]
        for pair in old:
            pair.end()
        return found

    def close(self) -> None:
        """End all that is read."""
        with self._lock:
            pairs = list(self._pairs.values())
        for pair in pairs:
            pair.end()


def routes(shelf: Shelf) -> list[Route]:
    """``api/compare``, ``api/compare/row``, what is posted to ``.../search`` and ``.../stop``, ``picture/compare``."""
    pairs = PairTable(shelf)

    async def picture(request: Request) -> Response:
        try:
            async with shelf.turn():
                if await request.is_disconnected():
                    return Response(status_code=499)
                data = await shelf.run(draw, pairs, dict(request.query_params))
        except (HeadraceError, TooLargeError) as error:
            return json_answer({"error": message_of(error)})  # an answer: a page with damaged samples has no errors
        except Exception as error:
            return error_answer(error)
        return Response(data, headers={"Cache-Control": "private, max-age=600"}, media_type="image/png")

    return [
        json_route("/api/compare", shelf, lambda _, params: _list(pairs, params)),
        json_route("/api/compare/row", shelf, lambda _, params: _row(pairs, params)),
        post_route("/api/compare/search", shelf, lambda _, body: _told(pairs, body, "search")),
        post_route("/api/compare/stop", shelf, lambda _, body: _told(pairs, body, "stop")),
        Route("/picture/compare", picture, methods=["GET"]),
    ]


def _list(pairs: PairTable, params: Mapping[str, str]) -> dict[str, Any]:
    """What belongs together and, as soon as that is known, some of the rows."""
    pair = pairs.pick(params)
    show: Any = _choice(params, "show", ("all", *get_args(Show)))
    at = whole_number(params, "at", 0, _MOST_ROW, default=0)
    limit = whole_number(params, "limit", 0, MOST_ROWS, default=_ROWS)
    pair.begin()
    facts = _facts(pair)
    if "rows" not in facts:
        return facts
    return facts | {"list": plain(pair.rows(show, at, limit))}


def _row(pairs: PairTable, params: Mapping[str, str]) -> dict[str, Any]:
    pair = pairs.pick(params)
    row = whole_number(params, "row", 0, _MOST_ROW)
    show: Any = _choice(params, "show", ("all", *get_args(Show)))
    return {**plain(pair.row(row)), "around": pair.neighbours(row, show), "pictures": _pictures(pair)}


def _told(pairs: PairTable, body: Mapping[str, Any], what: str) -> dict[str, Any]:
    pair = pairs.pick(body)
    pair.begin()
    is_done = pair.search() if what == "search" else pair.stop()
    return {"done": is_done, **_facts(pair)}


def _facts(pair: DatasetPair) -> dict[str, Any]:
    found: dict[str, Any] = plain(pair.facts())
    return found | {"pictures": _pictures(pair)}


def _pictures(pair: DatasetPair) -> list[int]:
    """Numbers of the fields that hold pictures, in at least one of the datasets."""
    first, second = pair.pictures
    return [k for k, field in enumerate(pair.fields) if field.first in first or field.second in second]


def _choice(params: Mapping[str, Any], name: str, known: tuple[str, ...]) -> str:
    word = str(params.get(name, known[0]))
    if word not in known:
        raise ValueError(f"{name} must be one of {', '.join(filter(None, known))}, got {word[:60]!r}")
    return word


# Pictures


def draw(pairs: PairTable, params: Mapping[str, str]) -> bytes:
    """A picture of a row as PNG: of the first or second dataset, their difference, or where they differ."""
    pair = pairs.pick(params)
    what = _choice(params, "what", _DRAWN)
    side = whole_number(params, "side", _LEAST_SIDE, _MOST_SIDE, default=_SIDE)
    factor = whole_number(params, "factor", 0, _MOST_FACTOR, default=0)
    number = whole_number(params, "field", 0, max(len(pair.fields) - 1, 0), default=0)
    i, j = pair.samples_of(whole_number(params, "row", 0, _MOST_ROW))
    field = pair.fields[number]
    if what in ("first", "second"):
        return png_of(_small(pair, field, what, i, j, side))
    if field.kind != "image" or not field.is_in_both or i is None or j is None:
        raise ValueError("there are no two pictures to compare here")
    above = whole_number(params, "above", 0, _MOST_LEVEL, default=0)
    return png_of(_difference(pair, field, i, j, side, above if what == "marks" else factor, is_marked=what == "marks"))


def _small(pair: DatasetPair, field: FieldPair, what: str, i: int | None, j: int | None, side: int) -> Pixels:
    dataset, index, name = (pair.a, i, field.first) if what == "first" else (pair.b, j, field.second)
    if index is None or name is None:
        raise LookupError("this sample is not in this dataset")
    return small_picture(dataset, index, name, (side, side)).pixels


def _difference(
    pair: DatasetPair, field: FieldPair, i: int, j: int, side: int, number: int, *, is_marked: bool
) -> Pixels:
    """Pixels that differ by more than a number, or the difference times that number; 0: as much as it takes."""
    assert field.first is not None
    assert field.second is not None
    (old,), (new,) = pair.a.read_bytes([i], field.first), pair.b.read_bytes([j], field.second)
    with room_for_pixels(count_pixels(old) + count_pixels(new)):
        first, second, _ = fit_pixels(pixels_of(pair.a, i, field.first), pixels_of(pair.b, j, field.second))
        if is_marked:
            return marked(first, second, side, number)
        return amplified(first, second, number or amplify_by(measure_pixels(first, second)), side)
