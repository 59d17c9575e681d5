"""The overview: what a dataset is, in numbers and drawings, without decoding more than a few of its samples."""

from __future__ import annotations

import threading
import time
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace.errors import HeadraceError
from headrace.fields import to_spec
from headrace.formats.summary import field_words, summarize
from headrace.loader import Loader
from headrace.loader.diagnosis import diagnose, usual_pipelines
from headrace.storage import release_mapped
from headrace.types import Measured, Measures
from headrace.viewer.answers import json_route, message_of, plain, post_route, shown_text
from headrace.viewer.columns import class_field, class_fields, labels_of, look_at, measures_of, payload_field
from headrace.viewer.jobs import ask_for

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt
    from starlette.routing import Route

    from headrace.types import Dataset, IndexArray
    from headrace.viewer.jobs import Job
    from headrace.viewer.shelf import Shelf, Shown

__all__ = ["count_classes", "draw_histograms", "histogram", "routes", "spread", "tell"]

_LOOKED_AT = 2000
_LOOK_S = 1.5
_BINS = 40
_MOST_CLASSES = 5000
_DOCTOR_S, _DOCTOR_BATCH, _DOCTOR_SAMPLES = 4.0, 64, 1 << 17
_MOST_FIELDS = 200


def routes(shelf: Shelf) -> list[Route]:
    """``api/overview``, ``api/overview/histograms``, ``api/overview/classes`` and ``api/overview/doctor``."""
    return [
        json_route("/api/overview", shelf, tell),
        json_route("/api/overview/histograms", shelf, draw_histograms),
        json_route("/api/overview/classes", shelf, count_classes),
        post_route("/api/overview/doctor", shelf, ask_doctor),
    ]


def tell(shelf: Shelf, params: Mapping[str, str]) -> dict[str, Any]:
    """Fields, counts, sizes and checks."""
    item = shelf.pick(params.get("d"))
    return {**item.once("overview", lambda: _tell(item)), "damaged": len(item.damage)}


def _tell(item: Shown) -> dict[str, Any]:
    dataset = item.dataset
    values, words, details = _summary(item)
    images = [about.get("images") or {} for about in dict(values.get("fields") or {}).values()]
    release_mapped()
    found: dict[str, Any] = plain(
        {
            "title": item.title,
            "path": dataset.path,
            "samples": len(dataset),
            "format": values.get("format"),
            "size_bytes": values.get("size_bytes"),
            "fields": [
                {"name": name, "kind": kind.kind, "about": words.get(name, "").removeprefix(kind.kind).lstrip("; ")}
                for name, kind in list(dataset.schema.items())[:_MOST_FIELDS]
            ],
            "fields_left_out": max(0, len(dataset.schema) - _MOST_FIELDS),
            "has_names": dataset.keys is not None,
            "has_checksums": dataset.has_checksums,
            "jpegs_indexed": dataset.jpegs_indexed,
            "jpegs": sum(one.get("jpg", 0) for one in images) or None,
            "pages": values.get("pages"),
            "page_size": values.get("page_size"),
            "page_use": values.get("page_use"),
            "is_local": dataset.is_local,
            "reading": dataset.reading,
            "details": [list(pair) for pair in details],
            "pictures": item.pictures,
        }
    )
    return found


def _summary(item: Shown) -> tuple[Mapping[str, Any], Mapping[str, str], list[tuple[str, str]]]:
    """What ``headrace info`` says; of a dataset that no path leads to, what it says itself."""
    dataset = item.dataset
    try:
        found = summarize(dataset.path)
        if found.values.get("samples", len(dataset)) == len(dataset):
            return found.values, found.fields, list(found.details)
    except (HeadraceError, OSError, ValueError, LookupError):
        pass  # made of other datasets, or gone since
    return {}, {name: field_words(to_spec(kind)) for name, kind in dataset.schema.items()}, []


def draw_histograms(shelf: Shelf, params: Mapping[str, str]) -> dict[str, Any]:
    """How large samples are, bytes and the sides of pictures; or how far that is."""
    item = shelf.pick(params.get("d"))
    return ask_for(item.jobs, "histograms", partial(_histograms, item))


def _histograms(item: Shown, job: Job) -> dict[str, Any]:
    field = payload_field(item)
    if field is None or not len(item.dataset):
        return {"field": None, "looked_at": 0, "drawn": {}}
    measures, looked_at = _measures(item, field, job)
    columns = {"width": measures.widths, "height": measures.heights, "bytes": measures.sizes}
    drawn = {
        what: histogram(column) for what, column in columns.items() if column is not None and int(column.max(initial=0))
    }
    return {"field": field, "looked_at": looked_at, "samples": len(item.dataset), "drawn": plain(drawn)}


def _measures(item: Shown, field: str, job: Job) -> tuple[Measures, int]:
    """Of all samples where that is known without reading them, else of some that are spread over the dataset."""
    dataset, first = item.dataset, np.zeros(1, np.int64)
    known = dataset.measure(first, field) if isinstance(dataset, Measured) else None
    is_known = known is not None and (known.widths is not None or dataset.schema[field].kind != "image")
    if is_known or len(dataset) <= _LOOKED_AT // 4:
        return measures_of(item, field, job.check), len(dataset)
    found, end = list[Measures](), time.monotonic() + _LOOK_S
    for chunk in np.array_split(spread(len(dataset), _LOOKED_AT, seed=0), _LOOKED_AT // 50):
        job.check(len(found), _LOOKED_AT // 50)
        found.append(look_at(item, chunk, field))
        if time.monotonic() > end:
            break
    columns = [[column for column in one if column is not None] for one in zip(*found, strict=True)]
    joined = [np.concatenate(one) if len(one) == len(found) else None for one in columns]
    sizes = joined[0]
    assert sizes is not None
    return type(found[0])(sizes, joined[1], joined[2]), len(sizes)


def spread(length: int, count: int, *, seed: int | None = None) -> IndexArray:
    """Up to ``count`` numbers below a length, evenly spread; with a seed in an order that begins everywhere.

    Example:
        >>> spread(100, 4).tolist()
        [12, 37, 62, 87]
    """
    if length <= count:
        found = np.arange(length, dtype=np.int64)
    else:
        found = ((np.arange(count) + 0.5) * length / count).astype(np.int64)
    return found if seed is None else np.random.default_rng(seed).permutation(found)


def histogram(values: npt.NDArray[np.integer[Any]], bins: int = _BINS) -> dict[str, Any]:
    """Counts of numbers in bins of the same width, or of the same factor where they differ a lot.

    Example:
        >>> histogram(np.array([1, 1, 2, 4]), bins=4)["counts"]
        [2, 1, 0, 1]
    """
    low, high = int(values.min()), int(values.max())
    middle = float(np.median(values[:: max(1, len(values) // 100_000)]))
    is_wide = low > 0 and high > 20 * max(middle, 1.0)
    if is_wide:
        edges = np.unique(np.round(np.geomspace(low, high + 1, bins + 1)).astype(np.int64))
    else:
        step = max(1, -(-(high - low + 1) // bins))
        edges = np.arange(low, high + step + 1, step, dtype=np.int64)
    facts = {"min": low, "max": high, "mean": float(values.mean()), "median": middle, "is_log": is_wide}
    return {"edges": edges.tolist(), "counts": _counts(values, edges, is_wide).tolist(), **facts}


def _counts(values: npt.NDArray[np.integer[Any]], edges: IndexArray, is_wide: bool) -> IndexArray:
    """Much faster than ``numpy.histogram`` for whole numbers; some at a time, so that no large array is made."""
    counts = np.zeros(len(edges) - 1, np.int64)
    for start in range(0, len(values), 1 << 20):
        part = values[start : start + (1 << 20)].astype(np.int64)
        step = edges[1] - edges[0]
        places = np.searchsorted(edges, part, "right") - 1 if is_wide else (part - edges[0]) // step
        counts += np.bincount(places, minlength=len(counts))[: len(counts)]
    return counts


def count_classes(shelf: Shelf, params: Mapping[str, str]) -> dict[str, Any]:
    """How many samples each class has, or how far counting them is."""
    item = shelf.pick(params.get("d"))
    label = class_field(item.dataset, params.get("by"))
    if label is None:
        return {"state": "ready", "field": None, "classes": [], "class_fields": []}
    return ask_for(item.jobs, ("classes", label), partial(_classes, item, label))


def _classes(item: Shown, label: str, job: Job) -> dict[str, Any]:
    values, missing = labels_of(item, label, job.check)
    found, counts = _counted(np.delete(values, missing) if len(missing) else values)
    names = item.dataset.class_names.get(label, ())
    order = np.argsort(-counts, kind="stable")[:_MOST_CLASSES]
    shown = [
        {
            "class": plain(value),
            "name": shown_text(names[value], 300) if 0 <= value < len(names) else None,
            "count": count,
        }
        for value, count in zip(found[order].tolist(), counts[order].tolist(), strict=True)
    ]
    unused = sum(1 for number in range(min(len(names), 1 << 20)) if not _has(found, number))
    return {
        "field": label,
        "class_fields": class_fields(item.dataset),
        "samples": len(values),
        "distinct": len(found),
        "without_samples": unused,
        "unreadable": len(missing),
        "classes": shown,
    }


def _counted(values: npt.NDArray[np.integer[Any]]) -> tuple[IndexArray, IndexArray]:
    """Distinct values, ascending, and how often each comes."""
    low, high = (int(values.min()), int(values.max())) if len(values) else (0, 0)
    if high - low > 1 << 20:
        found, counts = np.unique(values, return_counts=True)
        return found.astype(np.int64), counts
    counts = np.zeros(high - low + 1, np.int64)
    for start in range(0, len(values), 1 << 20):
        counts += np.bincount(values[start : start + (1 << 20)].astype(np.int64) - low, minlength=len(counts))
    found = np.flatnonzero(counts)
    return found + low, counts[found]


def _has(ascending: IndexArray, number: int) -> bool:
    place = int(np.searchsorted(ascending, number))
    return place < len(ascending) and int(ascending[place]) == number


def ask_doctor(shelf: Shelf, body: dict[str, Any]) -> dict[str, Any]:
    """What ``headrace doctor`` says, or that it is not ready yet; each ``run`` is measured anew."""
    item, run = shelf.pick(str(body.get("d", 0))), body.get("run", 0)
    if not isinstance(run, int) or not 0 <= run < 1 << 53:
        raise ValueError("run must be a whole number that is not negative")
    return ask_for(item.jobs, ("doctor", run), partial(_diagnosed, item))


def _usual_loader(dataset: Dataset) -> Loader:
    """The training that ``headrace doctor`` measures, with less memory: smaller batches, and of many samples a part."""
    size, first = max(1, min(_DOCTOR_BATCH, len(dataset))), max(0, len(dataset) - _DOCTOR_SAMPLES) // 2
    part = np.arange(first, first + _DOCTOR_SAMPLES) if first else None  # side by side, as whole pages are
    return Loader(dataset, size, order="random", pipelines=usual_pipelines(dataset), indices=part)


def _diagnosed(item: Shown, job: Job) -> dict[str, Any]:
    with item.once("doctor", threading.Lock):  # two at a time would measure each other
        job.check(0, None)
        try:
            facts = diagnose(_usual_loader(item.dataset), seconds=_DOCTOR_S).facts()
        except (HeadraceError, ValueError, TypeError) as error:  # nothing that a loader could take
            raise ValueError(message_of(error)) from error
        finally:
            release_mapped()
    found: dict[str, Any] = plain(facts)
    return found
