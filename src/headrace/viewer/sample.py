"""The page of one sample: every value in its own way, where it lies, and what is known about its picture."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from headrace._native import NativeError, crc32c, tile_index_info
from headrace.codecs import image as image_codec
from headrace.codecs import jpeg
from headrace.codecs.jpeg_header import read_header
from headrace.codecs.small_picture import NotShownError
from headrace.errors import ImageError
from headrace.fields import to_spec
from headrace.viewer.answers import json_route, message_of, plain, shown_text, whole_number
from headrace.viewer.grid import selected
from headrace.viewer.picture_store import PictureFile, picture_route
from headrace.viewer.stored_values import (
    FAILURES,
    MOST_PIXELS,
    Stored,
    can_show,
    file_kind,
    find_place,
    picture_file,
    read_stored,
    refuse_large,
)
from headrace.viewer.values import show_text, show_value

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.routing import Route

    from headrace.codecs.jpeg_header import JpegHeader
    from headrace.types import Dataset, Field, ImageSpans, Place
    from headrace.viewer.shelf import Shelf, Shown

__all__ = ["describe_sample", "routes"]

_MOST_FIELDS = 200
_MOST_JSON_BYTES = 8 << 20  # which can take a hundred times as much when it is laid out
_CUT_BYTES = 64 << 10
_USUAL_TILE = 8  # MCUs, as an index is made where nobody says otherwise


def routes(shelf: Shelf) -> list[Route]:
    """``api/sample``, ``api/sample/neighbours`` and ``picture/sample``."""
    return [
        json_route("/api/sample", shelf, lambda shelf, params: describe_sample(*_named(shelf, params))),
        json_route("/api/sample/neighbours", shelf, find_neighbours),
        picture_route("/picture/sample", shelf, _picture),
    ]


def _named(shelf: Shelf, params: Mapping[str, str]) -> tuple[Shown, int]:
    item = shelf.pick(params.get("d"))
    if not len(item.dataset):
        raise LookupError("the dataset has no samples")
    return item, whole_number(params, "i", 0, len(item.dataset) - 1, default=0)


def find_neighbours(shelf: Shelf, params: Mapping[str, str]) -> dict[str, Any]:
    """Where a sample stands among those that the grid shows, and which come before and after it there.

    While the samples of a filter are searched for, it says how far that is.
    """
    item, index = _named(shelf, params)
    found = selected(item, params)
    if isinstance(found, dict):
        return found
    places = np.flatnonzero(np.asarray(found) == index) if not isinstance(found, range) else [index]
    place = int(places[0]) if len(places) else None
    before = None if place is None or place == 0 else int(found[place - 1])
    after = 0 if place is None else place + 1
    return {
        "state": "ready",
        "count": len(found),
        "place": place,
        "previous": before,
        "next": int(found[after]) if after < len(found) else None,
    }


def _picture(shelf: Shelf, params: Mapping[str, str]) -> PictureFile:
    item, index = _named(shelf, params)
    return picture_file(item, index, named_field(item.dataset, params.get("field", "")))


def named_field(dataset: Dataset, name: str) -> str:
    """The field that a request names; names that are shown with escapes are found, too."""
    for own in dataset.schema:
        if name in (own, shown_text(own, 300)):
            return own
    raise LookupError(f"there is no field {name[:100]!r}")


def describe_sample(item: Shown, index: int) -> dict[str, Any]:
    """All that a page shows of a sample; what cannot be read is an error of its field alone."""
    dataset = item.dataset
    names = list(dataset.schema)[:_MOST_FIELDS]
    fields = [_describe_field(item, index, name, dataset.schema[name]) for name in names]
    for field in fields:
        if field["is_damaged"]:
            item.damage.add(index, field["error"])
    path, number = dataset.origin_of(index)
    return {
        "index": index,
        "samples": len(dataset),
        "name": _name_of(dataset, index),
        "origin": None if (path, number) == (dataset.path, index) else {"path": shown_text(path), "index": number},
        "damage": item.damage.message(index),
        "fields": fields,
        "fields_left_out": len(dataset.schema) - len(names),
    }


def _name_of(dataset: Dataset, index: int) -> str | None:
    keys = dataset.keys
    return None if keys is None else shown_text(keys[index], 2000)


def _describe_field(item: Shown, index: int, name: str, field: Field) -> dict[str, Any]:
    about: dict[str, Any] = {
        "name": shown_text(name, 300),
        "kind": field.kind,
        "about": plain(to_spec(field)),
        "place": None,
        "checksum": "unknown",
        "error": None,
        "is_damaged": False,
        "value": None,
    }
    try:
        place = find_place(item.dataset, index, name)
        about["place"] = None if place is None else _shown_place(place)
        refuse_large(place)
        show = _show_picture if field.kind == "image" else _show_other
        about |= show(item, index, name, place)
    except FAILURES as error:
        about |= _problem(error)
    return about


def _shown_place(place: Place) -> dict[str, Any]:
    return {"path": shown_text(place.path), "offset": place.offset, "size_bytes": place.size_bytes, "page": place.page}


def _show_other(item: Shown, index: int, name: str, place: Place | None) -> dict[str, Any]:
    kind, where = item.dataset.schema[name].kind, np.array([index], np.int64)
    if kind == "json":
        stored = read_stored(item, lambda dataset: dataset.read_bytes(where, name)[0])
        if stored.value is not None and len(stored.value) > _MOST_JSON_BYTES:
            return _told(stored) | {"value": show_text(stored.value[:_CUT_BYTES].decode(errors="replace"))}
    found: Stored[Any] = read_stored(item, lambda dataset: dataset.read_values(where, name)[0])
    told = _told(found)
    if found.value is not None or not found.error:
        told["value"] = show_value(found.value, kind, item.dataset.class_names.get(name))
        if isinstance(found.value, bytes):
            told["value"]["can_be_picture"] = file_kind(found.value) is not None and can_show(found.value)
    return told


def _told(stored: Stored[Any]) -> dict[str, Any]:
    return {"checksum": stored.checksum, "error": stored.error, "is_damaged": stored.error is not None}


def _problem(error: BaseException) -> dict[str, Any]:
    """What a page says of a value that is not shown; one that is only too large is not damaged."""
    return {"error": message_of(error), "is_damaged": not isinstance(error, NotShownError)}


# Pictures


def _show_picture(item: Shown, index: int, name: str, place: Place | None) -> dict[str, Any]:
    where = np.array([index], np.int64)
    stored = read_stored(item, lambda dataset: dataset.read_bytes(where, name)[0])
    told = _told(stored)
    if stored.value is None:
        return told
    data: bytes = stored.value
    kind = file_kind(data)
    told["value"] = shown = {
        "as": "picture",
        "format": "pixels" if kind is None else kind[0],
        "size_bytes": len(data),
        "width": None,
        "height": None,
        "jpeg": None,
        "tiles": None,
        "can_show": kind is None or can_show(data),
    }
    try:
        told["value"] |= _facts_of(item, index, name, data, kind)
        if told["error"] is None:
            _try_to_decode(item, index, name, shown)
    except FAILURES as error:
        if told["error"] is None:
            told |= _problem(error)
    return told


def _facts_of(item: Shown, index: int, name: str, data: bytes, kind: tuple[str, str] | None) -> dict[str, Any]:
    if kind is None:
        spans = _spans(item, index, name)
        return {"width": int(spans.widths[0]), "height": int(spans.heights[0])}
    if kind[0] != "JPEG":
        with image_codec.open_picture(data) as picture:
            return {"width": picture.width, "height": picture.height, "mode": picture.mode}
    header, info = read_header(data), jpeg.read_info(data)
    facts = {
        "sampling": header.sampling,
        "quality": header.quality,
        "is_standard": header.is_standard,
        "is_progressive": header.is_progressive,
        "is_arithmetic": header.is_arithmetic,
        "restart_interval": header.restart_interval,
        "precision": header.precision,
        "colors": info.color_space,
        "mcu": list(header.mcu),
        "extras": list(header.extras),
    }
    return {
        "width": header.width,
        "height": header.height,
        "jpeg": facts,
        "tiles": _tiles(item, index, name, data, header),
    }


def _spans(item: Shown, index: int, name: str) -> ImageSpans:
    where = np.array([index], np.int64)
    found = read_stored(item, lambda dataset: dataset.image_spans(where, name))
    if found.value is None:
        raise ImageError(found.error or "the picture cannot be found")
    return found.value


def _tiles(item: Shown, index: int, name: str, data: bytes, header: JpegHeader) -> dict[str, Any]:
    """The grid of the tile index, or of the one that could be made, and what is wrong with it."""
    across, down = header.mcu
    grid: dict[str, Any] = {"is_indexed": False, "width": _USUAL_TILE * across, "height": down, "problem": None}
    try:
        packed = _packed_index(_spans(item, index, name))
        if packed is None:
            return grid | {"why_not": _why_no_index(item, header)}
        info = tile_index_info(packed)
    except (*FAILURES, NativeError) as error:
        return grid | {"problem": message_of(error)}
    return {
        "is_indexed": True,
        "width": info.tile * across,
        "height": down,
        "tiles": info.rows * -(-header.width // (info.tile * across)),
        "size_bytes": len(packed),
        "problem": jpeg.index_problem(packed, len(data), crc32c(data)),
    }


def _packed_index(spans: ImageSpans) -> bytes | None:
    if spans.tile_indices is None:
        return None
    base, offsets, sizes = spans.tile_indices
    begin, size = int(offsets[0]), int(sizes[0])
    return bytes(base[begin : begin + size]) if size else None


def _why_no_index(item: Shown, header: JpegHeader) -> str:
    if header.is_progressive or header.is_arithmetic:
        return "progressive and arithmetic JPEGs have none"
    if item.dataset.jpegs_indexed:
        return "other pictures of this dataset have one, this one has none"
    return "make one with: headrace index"


def _try_to_decode(item: Shown, index: int, name: str, shown: Mapping[str, Any]) -> None:
    """Raise what a loader would; what is very large is not tried."""
    width, height = shown["width"], shown["height"]
    if not width or not height or shown["format"] == "pixels":
        return
    if width * height > MOST_PIXELS:
        raise NotShownError(f"the picture has {width:,} x {height:,} pixels, and at most {MOST_PIXELS:,} are shown")
    item.dataset.read_values(np.array([index], np.int64), name)
