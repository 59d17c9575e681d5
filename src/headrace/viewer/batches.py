"""The page of a loader: what it does, how long each stage takes, and the batches that come next."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.loader.inspector import value_at
from headrace.loader.stats import find_binding, stage_lines
from headrace.viewer.answers import json_route, message_of, plain, shown_text, whole_number
from headrace.viewer.seeds import inspector_of, show_output

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.routing import Route

    from headrace.loader.inspector import Inspector, SeenBatch
    from headrace.loader.stats import LoaderStats
    from headrace.viewer.shelf import Shelf, Shown

__all__ = ["describe_loader", "routes", "see_batch"]

_MOST_SAMPLES = 64
_MOST_SIDE = 512
_MOST_OUTPUTS = 16
_MOST_EPOCH = 2**31
_MOST_LINES, _MOST_LINE = 60, 2000


def routes(shelf: Shelf) -> list[Route]:
    """``api/loader`` and ``api/batch``."""
    return [
        json_route("/api/loader", shelf, lambda shelf, params: describe_loader(shelf.pick(params.get("d")))),
        json_route("/api/batch", shelf, _answer),
    ]


def describe_loader(item: Shown) -> dict[str, Any]:
    """Pipeline, place and timings of a loader; its stats are copied, and stay as they are."""
    inspector = inspector_of(item)
    loader = inspector.loader
    epoch, step = inspector.position()
    options = loader.options
    return {
        "plan": [shown_text(line, _MOST_LINE) for line in loader.plan().splitlines()[:_MOST_LINES]],
        "outputs": [{"name": shown_text(name, 300), "form": str(form)} for name, form in loader.forms().items()],
        "notes": inspector.notes,
        "epoch": epoch,
        "step": step,
        "steps": len(loader),
        "samples": loader.samples,
        "batch_size": options.batch_size,
        "order": options.order if isinstance(options.order, str) else "a function",
        "seed": plain(loader.seed),
        "place": list(options.place),
        "device": shown_text(f"{options.framework}, {options.device}" if options.device else options.framework or ""),
        "errors": [shown_text(message_of(error), 500) for error in loader.errors[:20]],
        "stats": show_stats(loader.stats.copy()),
    }


def show_stats(stats: LoaderStats) -> dict[str, Any]:
    """The numbers of a loader's loops."""
    loop_s = stats.loop_s
    return {
        "batches": stats.batches,
        "samples": stats.samples,
        "skipped": stats.samples_skipped,
        "loop_s": loop_s,
        "samples_per_s": stats.samples / loop_s if loop_s > 0 else 0.0,
        "bytes_per_s": stats.bytes_read / loop_s if loop_s > 0 else 0.0,
        "waiting": stats.wait_s / loop_s if loop_s > 0 else 0.0,
        "idle": stats.idle_s / loop_s if loop_s > 0 else 0.0,
        "workers": stats.workers,
        "batches_ahead": stats.batches_ahead,
        "binding": shown_text(find_binding(stats), 300),
        "stages": [
            {
                "name": shown_text(line.name, 300),
                "seconds": line.seconds,
                "share": line.share,
                "alone": line.alone_per_s,
            }
            for line in stage_lines(stats)
        ],
        "jpegs": {name: count for name, count in stats.jpegs.items() if count},
        "changes": [shown_text(change, 500) for change in stats.changes[-5:]],
    }


def _answer(shelf: Shelf, params: Mapping[str, str]) -> dict[str, Any]:
    item = shelf.pick(params.get("d"))
    inspector = inspector_of(item)
    if not len(inspector.loader):
        raise LookupError("an epoch of this loader has no batches; write a smaller batch_size, or drop_last=False")
    epoch, step = inspector.position()
    epoch = whole_number(params, "epoch", 0, _MOST_EPOCH, default=epoch)
    step = whole_number(params, "step", 0, len(inspector.loader) - 1, default=step)
    return see_batch(item, inspector, epoch, step)


def see_batch(item: Shown, inspector: Inspector, epoch: int, step: int) -> dict[str, Any]:
    """The first samples of a batch, as the model gets them."""
    try:
        seen = inspector.batch(epoch, step, most=_MOST_SAMPLES)
    except Exception as error:  # an op of the user's may raise anything
        raise ValueError(message_of(error)) from error
    shown = min(len(seen.samples), _MOST_SAMPLES)
    return {
        "epoch": epoch,
        "step": step,
        "steps": len(inspector.loader),
        "size": seen.size,
        "samples": [_show_sample(item, inspector, seen, position) for position in range(shown)],
    }


def _show_sample(item: Shown, inspector: Inspector, seen: SeenBatch, position: int) -> dict[str, Any]:
    normalizes, index = inspector.normalizes(), int(seen.samples[position])
    names = list(seen.values.keys())[:_MOST_OUTPUTS]
    keys = inspector.loader.dataset.for_epoch(seen.epoch).keys
    return {
        "index": index,
        "name": None if keys is None else shown_text(keys[index], 300),
        "outputs": [
            show_output(item, name, value_at(seen.values[name], position), normalizes.get(name), _MOST_SIDE)
            for name in names
        ],
    }
