"""Which samples the grid shows, and in which order: a filter and a sort, as an array of sample numbers."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace.progress import format_count
from headrace.viewer.columns import class_field, labels_of, measures_of, payload_field
from headrace.viewer.name_search import find_matches, find_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import numpy.typing as npt

    from headrace.types import IndexArray, Measures
    from headrace.viewer.columns import Labels
    from headrace.viewer.shelf import Shown

__all__ = ["SORTS", "Query", "select"]

SORTS = ("index", "name", "class", "bytes", "width", "height")
_MOST_SORTED_NAMES = 2_000_000
_MEASURES = ("bytes", "width", "height")
_MAX_TEXT = 500
_PART, _DIGITS = 1 << 19, 1 << 16


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
        if label is not None and not re.fullmatch(r"-?[0-9]{1,20}", label):
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
    if key != "class":
        return _ordered(_sizes(item, key, check), chosen, is_down)
    values, missing = _labels(item, query, check)
    if not len(missing):
        return _ordered(values, chosen, is_down)
    is_missing = _is_among(chosen, missing, len(values))  # these come last, whatever comes first
    return np.concatenate([_ordered(values, chosen[~is_missing], is_down), chosen[is_missing]])


def _ordered(values: npt.NDArray[np.integer[Any]], chosen: npt.NDArray[Any], is_down: bool) -> npt.NDArray[Any]:
    """Samples by their values; what is equal stays in the order of the samples.

    It sorts by 16 bits of the values at a time, the lowest first, and some samples at a time: ``argsort`` would take
    16 bytes for each sample besides the result.
    """
    for shift in range(0, 8 * values.dtype.itemsize, 16):
        chosen = _ordered_by(partial(_digits, values, shift=shift, is_down=is_down), chosen)
    return chosen


def _digits(
    values: npt.NDArray[np.integer[Any]], samples: npt.NDArray[Any], *, shift: int, is_down: bool
) -> npt.NDArray[np.uint16]:
    """16 bits of the values of samples, so that smaller digits stand for what comes first."""
    found = values[samples]
    if found.dtype.kind == "i":
        found ^= np.iinfo(found.dtype).min  # negative numbers come first
    bits = found.view(f"u{found.dtype.itemsize}")
    if is_down:
        bits = ~bits
    digits: npt.NDArray[np.uint16] = (bits >> bits.dtype.type(shift)).astype(np.uint16)
    return digits


def _ordered_by(
    digits: Callable[[npt.NDArray[Any]], npt.NDArray[np.uint16]], chosen: npt.NDArray[Any]
) -> npt.NDArray[Any]:
    parts = [chosen[start : start + _PART] for start in range(0, len(chosen), _PART)]
    counts = sum((np.bincount(digits(part), minlength=_DIGITS) for part in parts), np.zeros(_DIGITS, np.int64))
    if counts.max() == len(chosen):
        return chosen
    places = np.cumsum(counts) - counts
    ordered = np.empty_like(chosen)
    for part in parts:
        found = digits(part)
        order = np.argsort(found, kind="stable")
        found, here = found[order], np.bincount(found, minlength=_DIGITS)
        before = np.cumsum(here) - here  # of each digit, within this part
        ordered[(places - before)[found] + np.arange(len(found))] = part[order]
        places += here
    return ordered


def _taken(values: npt.NDArray[np.integer[Any]], chosen: npt.NDArray[Any]) -> npt.NDArray[np.integer[Any]]:
    """Values of ascending samples; numpy would make a wide copy of the numbers where all are taken."""
    return values if len(chosen) == len(values) else values[chosen]


def _filtered(item: Shown, query: Query, check: Callable[[int, int], object]) -> npt.NDArray[Any]:
    total = len(item.dataset)
    dtype = np.int32 if total < 2**31 else np.int64
    chosen = np.array(item.damage.samples(), dtype) if query.is_damaged else np.arange(total, dtype=dtype)
    if query.label is not None:
        chosen = _of_class(_labels(item, query, check), query.label, chosen)
    for what, low, high in query.ranges:
        values = _taken(_sizes(item, what, check), chosen)
        chosen = chosen[(values >= (low or 0)) & (values <= (np.inf if high is None else high))]
    if query.name:
        chosen = chosen[_named(item, query, check)[chosen]]
    return chosen


def _named(item: Shown, query: Query, check: Callable[[int, int], object]) -> npt.NDArray[np.bool_]:
    names = item.dataset.keys
    if names is None:
        raise ValueError("the samples of this dataset have no names, only numbers")
    return (find_matches if query.is_pattern else find_text)(names, query.name, check)


def _of_class(labels: Labels, wanted: int, chosen: npt.NDArray[Any]) -> npt.NDArray[Any]:
    values, missing = labels
    known = np.iinfo(values.dtype)
    if not known.min <= wanted <= known.max:
        return chosen[:0]
    found: npt.NDArray[Any] = chosen[_taken(values, chosen) == wanted]
    return found[~_is_among(found, missing, len(values))] if len(missing) else found


def _is_among(samples: npt.NDArray[Any], others: IndexArray, total: int) -> npt.NDArray[np.bool_]:
    marks = np.zeros(total, np.bool_)
    marks[others] = True
    found: npt.NDArray[np.bool_] = marks[samples]
    return found


def _labels(item: Shown, query: Query, check: Callable[[int, int], object]) -> Labels:
    label = class_field(item.dataset, query.by)
    if label is None:
        raise ValueError("this dataset has no field of whole numbers that could be classes")
    return labels_of(item, label, check)


def _sizes(item: Shown, what: str, check: Callable[[int, int], object]) -> npt.NDArray[np.integer[Any]]:
    field = payload_field(item)
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
