"""What every page asks first: which datasets are shown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.fields import to_spec
from headrace.viewer.answers import json_route, plain, shown_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.routing import Route

    from headrace.viewer.shelf import Shelf, Shown

__all__ = ["routes"]

_MAX_FIELDS = 500


def routes(shelf: Shelf) -> list[Route]:
    """``api/datasets``."""
    return [json_route("/api/datasets", shelf, list_datasets)]


def list_datasets(shelf: Shelf, params: Mapping[str, str]) -> dict[str, Any]:
    """All datasets in a few words, by number."""
    return {"datasets": [_about(number, item) for number, item in enumerate(shelf)]}


def _about(number: int, item: Shown) -> dict[str, Any]:
    dataset = item.dataset
    fields = list(dataset.schema.items())[:_MAX_FIELDS]
    return {
        "number": number,
        "title": shown_text(item.title, 300),
        "path": shown_text(dataset.path, 2000),
        "samples": len(dataset),
        "fields": [
            {"name": shown_text(name, 300), "kind": kind.kind, "about": plain(to_spec(kind))} for name, kind in fields
        ],
        "pictures": [shown_text(name, 300) for name in item.pictures],
        "has_names": dataset.keys is not None,
        "has_loader": item.loader is not None,
    }
