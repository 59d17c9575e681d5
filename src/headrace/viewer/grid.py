"""The grid: rows of samples as they are scrolled to, their thumbnails in packs, and lists of what was chosen."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
import struct
import time
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from headrace.errors import HeadraceError
from headrace.formats.thumbnails import thumbnails
from headrace.types import Measured
from headrace.viewer.answers import error_answer, json_route, message_of, plain, shown_text, whole_number
from headrace.viewer.captions import read_tolerant, short_values
from headrace.viewer.columns import class_field, class_fields, payload_field
from headrace.viewer.pictures import field_of, is_damage
from headrace.viewer.selections import Query, select

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import numpy.typing as npt
    from starlette.requests import Request

    from headrace.viewer.jobs import Job
    from headrace.viewer.shelf import Shelf, Shown

__all__ = ["list_text", "pack_thumbnails", "routes", "selected"]

_MOST_ROWS = 500
_MOST_THUMBNAILS = 64
_MOST_SIDE = 512
_MOST_NUMBERS = 100_000
_MAX_NAME = 300
_PATIENCE_S = 60.0
_PAUSE_S = 0.2
_LISTED = 1 << 16


def routes(shelf: Shelf) -> list[Route]:
    """``api/grid``, ``api/grid/rows``, ``api/grid/numbers``, ``api/grid/list`` and ``picture/thumbnails``."""

    async def pack(request: Request) -> Response:
        try:
            item = shelf.pick(request.query_params.get("d"))
            async with shelf.turn():
                if await request.is_disconnected():  # it was scrolled out of sight while it waited
                    return Response(status_code=499)
                data = await shelf.run(pack_thumbnails, item, request.query_params)
        except Exception as error:
            return error_answer(error)
        return Response(data, headers={"Cache-Control": "no-store"}, media_type="application/octet-stream")

    async def save(request: Request) -> Response:
        try:
            found = await _found(shelf, request.query_params)
        except Exception as error:
            return error_answer(error)
        headers = {"Cache-Control": "no-store", "Content-Disposition": 'attachment; filename="samples.txt"'}
        return StreamingResponse(list_text(found), headers=headers, media_type="text/plain; charset=utf-8")

    return [
        json_route("/api/grid", shelf, describe),
        json_route("/api/grid/rows", shelf, find_rows),
        json_route("/api/grid/numbers", shelf, find_numbers),
        Route("/api/grid/list", save, methods=["GET"]),
        Route("/picture/thumbnails", pack, methods=["GET"]),
    ]


async def _found(shelf: Shelf, params: Mapping[str, str]) -> npt.NDArray[Any] | range:
    """The samples of a filter, waited for: a file that is saved must be all of them."""
    item, end_s = shelf.pick(params.get("d")), time.monotonic() + _PATIENCE_S
    while isinstance(found := await shelf.run(selected, item, params), dict):
        if time.monotonic() > end_s:
            raise TimeoutError("the search takes long; save the list when the grid shows what was found")
        await asyncio.sleep(_PAUSE_S)
    return found


def describe(shelf: Shelf, params: Mapping[str, str]) -> dict[str, Any]:
    """What can be filtered and sorted by, of a dataset."""
    item = shelf.pick(params.get("d"))
    dataset = item.dataset
    label = class_field(dataset, params.get("by"))
    field = payload_field(item)
    is_picture = field is not None and dataset.schema[field].kind == "image"
    names = dataset.class_names.get(label, ()) if label is not None else ()
    return {
        "samples": len(dataset),
        "has_names": dataset.keys is not None,
        "by": label,
        "class_fields": class_fields(dataset),
        "class_names": [shown_text(name, _MAX_NAME) for name in names[:10_000]],
        "pictures": item.pictures,
        "sized": field,
        "has_sides": is_picture,
        "damaged": len(item.damage),
        "is_checked": item.damage.is_complete,
        "path": shown_text(shlex.quote(_no_option(dataset.path)), 2000),
    }


def _no_option(path: str) -> str:
    """A path that a command does not take for one of its options."""
    return f"./{path}" if path.startswith("-") else path


def find_rows(shelf: Shelf, params: Mapping[str, str]) -> dict[str, Any]:
    """Samples from a place of the grid on, or how far the search for them is, or why there can be none."""
    item = shelf.pick(params.get("d"))
    try:
        found = selected(item, params)
    except ValueError as error:  # what a user is typing is no failure of the page
        return {"state": "failed", "error": message_of(error)}
    if isinstance(found, dict):
        return found
    count = len(found)
    start = whole_number(params, "start", 0, 2**53, default=0)
    many = whole_number(params, "count", 0, _MOST_ROWS, default=100)
    indices = np.asarray(found[start : start + many], np.int64)
    return {"state": "ready", "count": count, "start": start, "rows": _rows(item, indices, params)}


def find_numbers(shelf: Shelf, params: Mapping[str, str]) -> dict[str, Any]:
    """Numbers of the samples from a place of the grid on, or how far the search for them is."""
    start = whole_number(params, "start", 0, 2**53, default=0)
    many = whole_number(params, "count", 0, _MOST_NUMBERS, default=_MOST_NUMBERS)
    found = selected(shelf.pick(params.get("d")), params)
    if isinstance(found, dict):
        return found
    return {"state": "ready", "numbers": np.asarray(found[start : start + many], np.int64).tolist()}


def selected(item: Shown, params: Mapping[str, str]) -> npt.NDArray[Any] | range | dict[str, Any]:
    """Numbers of the samples that the filter and the sort of a request choose, or how far the search for them is."""
    query = Query.parse(params)
    if query.is_all:
        return range(len(item.dataset))
    key = (query, len(item.damage) if query.is_damaged else 0)
    job = item.jobs.ask(key, partial(_search, item, query))
    if job.is_running or job.is_cancelled:
        return {"state": "working", "done": job.done, "total": job.total}
    found: npt.NDArray[Any] = job.result
    return found


def _search(item: Shown, query: Query, job: Job) -> npt.NDArray[Any]:
    return select(item, query, job.check)


def _rows(item: Shown, indices: npt.NDArray[np.int64], params: Mapping[str, str]) -> list[dict[str, Any]]:
    dataset = item.dataset
    names, label, field = dataset.keys, class_field(dataset, params.get("by")), payload_field(item)
    rows: list[dict[str, Any]] = [{"i": index} for index in indices.tolist()]
    for row in rows:
        if names is not None:
            row["name"] = shown_text(names[row["i"]], _MAX_NAME)
        if (problem := item.damage.message(row["i"])) is not None:
            row["problem"] = shown_text(problem, _MAX_NAME)
    if label is not None:
        _add(rows, "class", read_tolerant(lambda some: dataset.read_values(some, label), indices))
    if field is not None and isinstance(dataset, Measured):
        measures = _measured(dataset, indices, field)
        for key, column in zip(("bytes", "width", "height"), measures, strict=False):
            _add(rows, key, column)
    if not item.pictures:
        for row, words in zip(rows, short_values(dataset, indices), strict=True):
            row["fields"] = words
    return rows


def _measured(dataset: Measured, indices: npt.NDArray[np.int64], field: str) -> Sequence[Any]:
    try:
        return dataset.measure(indices, field) or ()
    except (HeadraceError, ValueError):
        return ()


def _add(rows: list[dict[str, Any]], key: str, values: Sequence[Any] | None) -> None:
    for row, value in zip(rows, () if values is None else values, strict=False):
        if value is not None:
            row[key] = plain(value)


def pack_thumbnails(item: Shown, params: Mapping[str, str]) -> bytes:
    """Thumbnails of samples, one after the other behind a list of what they are.

    The pack begins with the size of the list (u32), which is JSON: of each sample the number and either the bytes, the
    media type and the sides of the original, or an error and whether the sample is damaged.
    """
    numbers = params.get("i", "").split(",")
    if len(numbers) > _MOST_THUMBNAILS or not all(re.fullmatch(r"[0-9]{1,18}", part) for part in numbers):
        raise ValueError(f"i must be up to {_MOST_THUMBNAILS} numbers of samples with commas between them")
    indices = [int(part) for part in numbers]
    side = whole_number(params, "side", 8, _MOST_SIDE, default=192)
    about: list[dict[str, Any]] = []
    parts = []
    for index, found in zip(indices, thumbnails(item.dataset, indices, field_of(item, params), side), strict=True):
        if isinstance(found, Exception):
            if is_damage(found):
                item.damage.add(index, message_of(found))
            about.append({"i": index, "error": message_of(found), "is_damaged": is_damage(found)})
            continue
        parts.append(found.data)
        sides = {"width": found.width, "height": found.height}
        about.append({"i": index, "size": len(found.data), "type": found.media_type, **sides})
    head = json.dumps(about).encode()
    return b"".join((struct.pack("<I", len(head)), head, *parts))


def list_text(found: npt.NDArray[Any] | range) -> Iterator[str]:
    r"""Numbers of samples as lines of text, consecutive ones as a range: what ``headrace subset --samples`` takes.

    Example:
        >>> "".join(list_text(np.array([3, 4, 5, 9, 1])))
        '3:6\n9\n1\n'
    """
    if isinstance(found, range):
        yield f"0:{len(found)}\n" if found else ""
        return
    cuts = np.flatnonzero(np.diff(found) != 1) + 1
    starts, ends = np.r_[0, cuts], np.r_[cuts, len(found)]
    if not len(found):
        return
    for first in range(0, len(starts), _LISTED):
        block = zip(starts[first : first + _LISTED].tolist(), ends[first : first + _LISTED].tolist(), strict=True)
        yield "".join(_line(int(found[a]), b - a) for a, b in block)


def _line(first: int, count: int) -> str:
    return f"{first}\n" if count == 1 else f"{first}:{first + count}\n"
