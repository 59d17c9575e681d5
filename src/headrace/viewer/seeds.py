"""The page of what the model sees: the outputs of a pipeline for one sample, under many seeds."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace.errors import HeadraceError
from headrace.formats.open import open_dataset
from headrace.loader import Loader
from headrace.loader.inspector import Inspector
from headrace.viewer.answers import json_route, message_of, shown_text, whole_number
from headrace.viewer.arrays import can_be_picture, encode_png, to_picture
from headrace.viewer.picture_store import PictureFile, PictureStore, picture_route
from headrace.viewer.recipes import RECIPES, code_of
from headrace.viewer.values import show_brief

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.routing import Route

    from headrace.loader.inspector import Look
    from headrace.ops import Normalize
    from headrace.types import Dataset
    from headrace.viewer.shelf import Shelf, Shown

__all__ = ["OWN", "made_picture", "pictures_of", "routes", "see_seeds", "show_output"]

OWN = "own"
_MOST_SEED = 2**31
_MOST_SEEDS = 16
_MOST_S = 20.0
_MOST_SIDE = 1024
_MOST_OUTPUTS = 16
_MOST_LINES, _MOST_LINE = 60, 2000


def routes(shelf: Shelf) -> list[Route]:
    """``api/recipes``, ``api/seeds`` and ``picture/made``."""
    return [
        json_route("/api/recipes", shelf, list_recipes),
        json_route("/api/seeds", shelf, _answer),
        picture_route("/picture/made", shelf, made_picture),
    ]


def pictures_of(item: Shown) -> PictureStore:
    """The pictures that were made of a dataset's samples."""
    return item.once("made pictures", PictureStore)


def made_picture(shelf: Shelf, params: Mapping[str, str]) -> PictureFile:
    """A picture that an answer has named."""
    return pictures_of(shelf.pick(params.get("d"))).get(params.get("key", ""))


def list_recipes(shelf: Shelf, params: Mapping[str, str]) -> dict[str, Any]:
    """The pipelines that a page offers for a dataset, the user's own first."""
    item = shelf.pick(params.get("d"))
    own = [] if item.loader is None else [{"name": OWN, "title": "Your pipeline", "about": "", "parameters": []}]
    known = [
        {
            "name": recipe.name,
            "title": recipe.title,
            "about": recipe.about,
            "parameters": [
                {
                    "name": one.name,
                    "title": one.title,
                    "default": one.default,
                    "least": one.least,
                    "most": one.most,
                    "step": one.step,
                }
                for one in recipe.parameters
            ],
        }
        for recipe in RECIPES.values()
    ]
    dataset = _with_pictures(item)
    fields = [] if dataset is None else _picture_fields(dataset)
    return {
        "recipes": own + (known if fields else []),
        "fields": [shown_text(name, 300) for name in fields],
        "why_none": "" if fields else _why_none(item),
    }


def _picture_fields(dataset: Dataset) -> list[str]:
    return [name for name, field in dataset.schema.items() if field.kind == "image"]


def _with_pictures(item: Shown) -> Dataset | None:
    """The dataset, if it has pictures that a loader decodes; or, with pictures stored as bytes, opened to decode them.

    None where a loader gets no pictures.
    """
    if _picture_fields(item.dataset):
        return item.dataset
    is_stored = any(item.dataset.schema[name].kind == "bytes" for name in item.pictures)
    return item.once("decoded", lambda: _opened_to_decode(item)) if is_stored else None


def _opened_to_decode(item: Shown) -> Dataset | None:
    dataset = item.dataset
    if not dataset.is_local:
        return None  # how its store was reached is not known here
    try:
        opened = open_dataset(dataset.path, decode="image")
    except (HeadraceError, OSError, ValueError, TypeError, LookupError):  # made of others, or the format has no such
        return None
    if len(opened) == len(dataset) and len(_picture_fields(opened)) == 1:
        return item.owned.enter_context(opened)
    opened.close()
    return None


def _why_none(item: Shown) -> str:
    if item.pictures:
        return (
            "The pictures of this dataset are values that a loader does not decode by itself. Name a pipeline that "
            "does with: headrace view --pipeline FILE:NAME"
        )
    return (
        "No field of this dataset has pictures, and no pipeline was given. Name one with: headrace view --pipeline "
        "FILE:NAME"
    )


def _answer(shelf: Shelf, params: Mapping[str, str]) -> dict[str, Any]:
    item = shelf.pick(params.get("d"))
    index = whole_number(params, "i", 0, max(0, len(item.dataset) - 1), default=0)
    inspector, code = _chosen(item, params)
    first = whole_number(params, "seed", 0, _MOST_SEED, default=inspector.loader.seed % _MOST_SEED)
    epoch = whole_number(params, "epoch", 0, _MOST_SEED, default=0)
    by = params.get("by", "seed")
    count = whole_number(params, "count", 1, _MOST_SEEDS, default=_MOST_SEEDS)
    pairs = [(first, epoch + k) if by == "epoch" else (first + k, epoch) for k in range(count)]
    plan = inspector.loader.plan().splitlines()[:_MOST_LINES]
    return {
        "index": index,
        "code": code,
        "plan": [shown_text(line, _MOST_LINE) for line in plan],
        "notes": inspector.notes,
        **see_seeds(item, inspector, index, pairs),
    }


def _chosen(item: Shown, params: Mapping[str, str]) -> tuple[Inspector, list[str]]:
    """The pipeline that a request names, and its ops as one writes them."""
    name = params.get("recipe") or (OWN if item.loader is not None else next(iter(RECIPES)))
    if name == OWN:
        if item.loader is None:
            raise LookupError("no pipeline was given; name one with: headrace view --pipeline FILE:NAME")
        return inspector_of(item), []
    if name not in RECIPES:
        raise LookupError(f"there is no pipeline {name[:60]!r}; there are {', '.join(RECIPES)}")
    dataset = _with_pictures(item)
    if dataset is None:
        raise ValueError(_why_none(item))
    fields = _picture_fields(dataset)
    wanted = params.get("field")
    field = next((one for one in fields if wanted in (one, shown_text(one, 300))), fields[0])
    ops = RECIPES[name].make(RECIPES[name].parse(params))
    others: dict[str, Any] = dict.fromkeys(dataset.schema)
    loader = Loader(dataset, 1, pipelines=others | {field: ops}, drop_last=False, workers=1)
    return Inspector(loader), [code_of(op) for op in ops]


def inspector_of(item: Shown) -> Inspector:
    """What looks at the loader of a dataset; one for all requests."""
    if item.loader is None:
        raise LookupError("there is no loader; show one with loader.view(), or headrace view --pipeline FILE:NAME")
    loader: Loader = item.loader
    return item.once("inspector", lambda: Inspector(loader))


def see_seeds(item: Shown, inspector: Inspector, index: int, pairs: list[tuple[int, int]]) -> dict[str, Any]:
    """What comes out for seeds and epochs, each in its own tile; an error is one of its tile alone."""
    end_s, normalizes = time.monotonic() + _MOST_S, inspector.normalizes()
    tiles, originals = [], dict[str, dict[str, int]]()
    for seed, epoch in pairs:
        tile: dict[str, Any] = {"seed": seed, "epoch": epoch, "windows": [], "outputs": [], "error": None}
        tiles.append(tile)
        if time.monotonic() > end_s:
            tile["error"] = f"left out: the others took more than {_MOST_S:.0f} seconds"
            continue
        try:
            look = inspector.look(index, seed=seed, epoch=epoch)
            tile |= _show_look(item, look, normalizes)
        except Exception as error:  # an op of the user's may raise anything
            tile["error"] = message_of(error)
            continue
        for window in look.windows:
            if window.field not in originals:
                originals[window.field] = _sides_of(inspector.loader.dataset, index, window.field)
    shown = [
        {"field": shown_text(name, 300), "stored": _stored_name(item, name), **at} for name, at in originals.items()
    ]
    return {"tiles": tiles, "originals": shown}


def _stored_name(item: Shown, field: str) -> str:
    """The field of the dataset that holds the pictures of a loader's field: another one where bytes are decoded."""
    return shown_text(field if field in item.dataset.schema else next(iter(item.pictures), field), 300)


def _sides_of(dataset: Dataset, index: int, field: str) -> dict[str, int]:
    spans = dataset.image_spans(np.array([index], np.int64), field)
    return {"width": int(spans.widths[0]), "height": int(spans.heights[0])}


def _show_look(item: Shown, look: Look, normalizes: Mapping[str, Normalize]) -> dict[str, Any]:
    windows = [
        {**window._asdict(), "output": shown_text(window.output, 300), "field": shown_text(window.field, 300)}
        for window in look.windows
    ]
    outputs = [
        show_output(item, name, value, normalizes.get(name))
        for name, value in list(look.values.items())[:_MOST_OUTPUTS]
    ]
    return {"windows": windows, "outputs": outputs}


def show_output(
    item: Shown, name: str, value: Any, normalize: Normalize | None, side: int = _MOST_SIDE
) -> dict[str, Any]:
    """One output of one sample: a picture where it can be one, else a few words."""
    shown: dict[str, Any] = {"name": shown_text(name, 300), "text": "", "picture": None, "note": ""}
    if isinstance(value, np.ndarray) and can_be_picture(value.shape, value.dtype):
        pixels, note = to_picture(value, normalize, side)
        shown["picture"] = pictures_of(item).put(PictureFile(encode_png(pixels), "image/png"))
        shown["note"] = note
        shown["text"] = f"{value.dtype}, {' x '.join(map(str, value.shape))}"
        return shown
    classes = item.dataset.class_names.get(name)
    return shown | {"text": show_brief(value, classes)}
