"""Which samples the grid shows, and in which order: a filter and a sort, as an array of sample numbers."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace.progress import format_count
from headrace.viewer.columns import class_field, labels_of, measures_of, payload_field
from headrace.viewer.name_search import find_matches, find_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import numpy.typing as npt

    from headrace.types import IndexArray, Measures
    from headrace.viewer.shelf import Shown

__all__ = ["SORTS", "Query", "select"]

SORTS = ("index", "name", "class", "bytes", "width", "height")
_MOST_SORTED_NAMES = 2_000_000
_MEASURES = ("bytes", "width", "height")
_MAX_TEXT = 500


@dataclass(frozen=True, kw_only=True, slots=True)
class Query:
    """What a request asks for.

    ``ranges`` has the least and the most of what is measured, each or both of them; ``sort`` is one of SORTS, behind a
    minus sign where the largest come first.
    """

    label: int | None = None
    by: str | None = None
    name: str = ""
    is_pattern: bool = False
    ranges: tuple[tuple[str, int | None, int | None], ...] = ()
    is_damaged: bool = False
    sort: str = "index"

    @classmethod
    def parse(cls, params: Mapping[str, str]) -> Query:
        """The query of a request; ValueError when it makes no sense."""
        sort = params.get("sort") or "index"
        if sort.removeprefix("-") not in SORTS:
            raise ValueError(f"sort must be one of {', '.join(SORTS)}, or one behind a minus sign, got {sort[:60]!r}")
        name = params.get("name", "")
        if len(name) > _MAX_TEXT:
            raise ValueError(f"a name to look for may have {_MAX_TEXT} characters, got {len(name)}")
        label = params.get("class") or None
        if label is not None and not re.fullmatch(r"-?[0-9]{1,18}", label):
            raise ValueError(f"class must be a whole number, got {label[:60]!r}")
        return cls(
            label=None if label is None else int(label),
            by=params.get("by") or None,
            name=name,
            is_pattern=params.get("regex") == "1",
            ranges=tuple(_range(what, params[what]) for what in _MEASURES if params.get(what)),
            is_damaged=params.get("damaged") == "1",
            sort=sort,
        )

    @property
    def is_all(self) -> bool:
        """It chooses all samples, in their order."""
        return self == Query(by=self.by)


def _range(what: str, text: str) -> tuple[str, int | None, int | None]:
    match = re.fullmatch(r"([0-9]{0,18}):([0-9]{0,18})", text)
    if match is None:
        raise ValueError(f"{what} must be a range such as 100:2000, 100: or :2000, got {text[:60]!r}")
    low, high = (int(part) if part else None for part in match.groups())
    return what, low, high


def select(item: Shown, query: Query, check: Callable[[int, int], object]) -> IndexArray | npt.NDArray[np.int32]:
    """Numbers of the samples that a query chooses, in its order.

    Args:
        item: the dataset.
        query: which, and in which order.
        check: called as the work advances; what it raises ends it.

    Raises:
        ValueError: the dataset does not have what is asked for, or there is too much of it.
    """
    chosen = _filtered(item, query, check)
    key = query.sort.removeprefix("-")
    is_down = query.sort.startswith("-")
    if key == "index":
        return chosen[::-1] if is_down else chosen
    if key == "name":
        order = _name_order(item, chosen)
        return chosen[order[::-1] if is_down else order]
    values = _column(item, query, key, check)[chosen]
    if is_down:  # what is equal stays in the order of the samples
        wide = values if values.dtype.kind == "u" else values.astype(np.int64)
        values = wide.max(initial=wide.dtype.type(0)) - wide
    return chosen[np.argsort(values, kind="stable")]


def _filtered(item: Shown, query: Query, check: Callable[[int, int], object]) -> npt.NDArray[Any]:
    total = len(item.dataset)
    dtype = np.int32 if total < 2**31 else np.int64
    chosen = np.array(item.damage.samples(), dtype) if query.is_damaged else np.arange(total, dtype=dtype)
    if query.label is not None:
        chosen = chosen[_column(item, query, "class", check)[chosen] == query.label]
    for what, low, high in query.ranges:
        values = _column(item, query, what, check)[chosen]
        chosen = chosen[(values >= (low or 0)) & (values <= (np.inf if high is None else high))]
    if query.name:
        chosen = chosen[_named(item, query, check)[chosen]]
    return chosen


def _named(item: Shown, query: Query, check: Callable[[int, int], object]) -> npt.NDArray[np.bool_]:
    names = item.dataset.keys
    if names is None:
        raise ValueError("the samples of this dataset have no names, only numbers")
    return (find_matches if query.is_pattern else find_text)(names, query.name, check)


def _column(item: Shown, query: Query, what: str, check: Callable[[int, int], object]) -> npt.NDArray[np.integer[Any]]:
    if what == "class":
        label = class_field(item.dataset, query.by)
        if label is None:
            raise ValueError("this dataset has no field of whole numbers that could be classes")
        return labels_of(item, label, check)
    field = payload_field(item.dataset)
    if field is None:
        raise ValueError("no field of this dataset has a size; it has numbers alone")
    return _measure(measures_of(item, field, check), what)


def _measure(found: Measures, what: str) -> npt.NDArray[np.integer[Any]]:
    column = {"bytes": found.sizes, "width": found.widths, "height": found.heights}[what]
    if column is None:
        raise ValueError(f"there are no pictures of which the {what} could be known")
    return column


def _name_order(item: Shown, chosen: npt.NDArray[Any]) -> IndexArray:
    names = item.dataset.keys
    if names is None:
        raise ValueError("the samples of this dataset have no names, only numbers")
    if len(chosen) > _MOST_SORTED_NAMES:
        most, found = format_count(_MOST_SORTED_NAMES, "sample"), len(chosen)
        raise ValueError(f"up to {most} are sorted by name, and these are {found:,}; filter them first")
    keys = [names[index] for index in chosen.tolist()]
    return np.array(sorted(range(len(keys)), key=keys.__getitem__), np.int64)
