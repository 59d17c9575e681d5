"""Thumbnails for the pages: small pictures that are made when they are asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.responses import Response
from starlette.routing import Route

from headrace.codecs.small_picture import NotShownError
from headrace.errors import CorruptSampleError, ImageError
from headrace.formats.thumbnails import thumbnail
from headrace.viewer.answers import error_answer, message_of, whole_number

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.requests import Request

    from headrace.formats.thumbnails import Thumbnail
    from headrace.viewer.shelf import Shelf, Shown

__all__ = ["field_of", "is_damage", "make_thumbnail", "routes"]

_LEAST_SIDE, _MOST_SIDE = 8, 1024


def routes(shelf: Shelf) -> list[Route]:
    """``picture/thumbnail/D/I?field=&side=``."""

    async def answer(request: Request) -> Response:
        try:
            item = shelf.pick(request.path_params["d"])
            async with shelf.turn():
                if await request.is_disconnected():  # it was scrolled out of sight while it waited
                    return Response(status_code=499)
                params = {**request.query_params, "i": request.path_params["i"]}
                small = await shelf.run(make_thumbnail, item, params)
        except Exception as error:
            return error_answer(error)
        headers = {"Cache-Control": "private, max-age=3600", "X-Sides": f"{small.width}x{small.height}"}
        return Response(small.data, headers=headers, media_type=small.media_type)

    return [Route("/picture/thumbnail/{d}/{i}", answer, methods=["GET"])]


def make_thumbnail(item: Shown, params: Mapping[str, str]) -> Thumbnail:
    """The thumbnail that a request asks for; a sample that has none because it is damaged is remembered."""
    index = whole_number(params, "i", 0, max(len(item.dataset) - 1, 0))
    side = whole_number(params, "side", _LEAST_SIDE, _MOST_SIDE, default=192)
    try:
        return thumbnail(item.dataset, index, field_of(item, params), side)
    except (CorruptSampleError, ImageError) as error:
        if is_damage(error):
            item.damage.add(index, message_of(error))
        raise


def is_damage(error: Exception) -> bool:
    """The error says that a sample is damaged, and not that it is too large or has no picture."""
    return isinstance(error, CorruptSampleError | ImageError) and not isinstance(error, NotShownError)


def field_of(item: Shown, params: Mapping[str, str]) -> str:
    """The field of pictures that a request names, by default the first."""
    name = params.get("field") or next(iter(item.pictures), None)
    if name is None:
        raise ValueError("there are no pictures in this dataset")
    if name not in item.dataset.schema:
        raise LookupError(f"there is no field {name[:100]!r}")
    return name
