"""``headrace.diagnose``: what holds a loader back, in words and numbers, and what to change."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headrace import ops
from headrace.loader.loader import Loader
from headrace.loader.remedies import REMEDIES, make_case
from headrace.loader.stats import find_binding, stage_lines
from headrace.progress import format_bytes, format_count

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from headrace.errors import PathLike
    from headrace.loader.measurement import Measured
    from headrace.loader.plan import Pipeline
    from headrace.loader.remedies import Advice
    from headrace.loader.stats import LoaderStats
    from headrace.types import Dataset

__all__ = ["Diagnosis", "diagnose", "usual_pipelines"]

_BATCH_SIZE = 256
_SEEN_S = 1.0  # a loop that lasted so long says something about its consumer
_WORDS = {
    "consumer": "the consumer: it waits for {wait:.0%} of its loop, so a faster loader would bring nothing",
    "disk": "the disk: {disk}/s come from it, and the threads wait for it",
    "network": "the network: {read}/s come from the store, and the threads wait for it",
    "read": "reading: finding the stored values and unpacking them",
    "check": "comparing checksums",
    "decode": "decoding pictures",
    "resize": "resizing pictures and writing their values",
    "ops": "the native ops on pixels",
    "gpu": "what the GPU does to make pictures, and what the CPU prepares for it",
    "collate": "putting values of different sizes together",
    "copy": "the copy to the device",
    "nothing": "nothing: no batch was made",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Diagnosis:
    """What ``diagnose`` found.

    ``binding`` is what holds the loader back: ``disk``, ``network``, a stage of ``loader.stats``, ``python: NAME`` for
    an op, or ``consumer``; ``text`` says it in words. ``samples_per_s`` is the rate without a consumer. ``advice`` are
    the things to change, those that bring most first.
    """

    path: str
    pipeline: str
    binding: str
    text: str
    samples_per_s: float
    stats: LoaderStats
    advice: tuple[Advice, ...]

    def __str__(self) -> str:
        lines = [
            f"{self.path}: {self.samples_per_s:,.0f} samples/s, {format_count(self.stats.workers, 'worker')}",
            *(f"  {line}" for line in self.pipeline.splitlines()),
            "",
            f"  {'stage':<24}{'seconds':>10}{'share':>8}{'alone, samples/s':>18}",
            *(f"  {line.text()}" for line in stage_lines(self.stats)),
            "",
            f"What binds: {self.text}.",
            "",
            *(["What to change:"] if self.advice else ["Nothing was found that would make it faster or safer."]),
            *(f"  {number}. {advice}" for number, advice in enumerate(self.advice, 1)),
        ]
        return "\n".join(lines)

    def facts(self) -> dict[str, object]:
        """The same as values that JSON can hold."""
        stats = self.stats
        return {
            "path": self.path,
            "pipeline": self.pipeline.splitlines(),
            "samples_per_s": self.samples_per_s,
            "bytes_per_s": stats.bytes_read / max(stats.loop_s, 1e-9),
            "workers": stats.workers,
            "batches_ahead": stats.batches_ahead,
            "binding": self.binding,
            "text": self.text,
            "stages_s": dict(stats.stages),
            "python_ops_s": dict(stats.python_ops),
            "loop_s": stats.loop_s,
            "advice": [
                {"kind": one.kind, "text": one.text, "factor": one.factor, "basis": one.basis} for one in self.advice
            ],
        }


def diagnose(
    target: Loader | Dataset | PathLike | Sequence[PathLike],
    *,
    seconds: float = 5.0,
    pipelines: Mapping[str, Pipeline | None] | None = None,
) -> Diagnosis:
    """Measure a loader for some seconds, say what binds it, and what to change, with what that would bring.

    It runs a copy of the loader with a consumer that does nothing, then some of its pictures in other ways: with an
    index, stored smaller, as JPEG. Nothing is changed or written, but for a small part of a dataset that is slow to
    read, which is written into memory (/dev/shm, or else the temporary folder) and removed. If the loader itself was in
    a loop before, its stats tell whether the consumer was the slow one.

    Args:
        target: a loader, or what it takes: a dataset, a path, a pattern, a list of them. For a dataset the usual
            training is measured: random order, and for pictures RandomResizedCrop(224), flip and float16.
        seconds: about how long it may take; opening the dataset is not counted.
        pipelines: of a dataset, other ones than the usual.

    Example:
        >>> import os, tempfile, headrace
        >>> path = os.path.join(tempfile.mkdtemp(), "numbers.beton")
        >>> headrace.write(path, [(i,) for i in range(100)], fields={"n": headrace.Int()})
        >>> headrace.diagnose(path, seconds=0.2).samples_per_s > 0
        True
    """
    if not 0 < seconds <= 3600:
        raise ValueError(f"seconds must be above 0 and at most 3600, got {seconds!r}")
    if isinstance(target, Loader):
        if pipelines is not None:
            raise ValueError("pipelines is for a dataset; a loader has its own")
        return _diagnose(target, target.stats, seconds)
    loader = _usual_loader(target, pipelines)
    return _diagnose(loader, loader.stats, seconds)


def _diagnose(loader: Loader, seen: LoaderStats, seconds: float) -> Diagnosis:
    case = make_case(loader._remade(progress=False, trace=None), seconds)
    binding = _binding(case.measured, is_local=loader.dataset.is_local)
    is_consumer = seen.loop_s >= _SEEN_S and find_binding(seen) == "consumer"
    binding = "consumer" if is_consumer else binding
    found = [advice for remedy in REMEDIES if (advice := remedy(case)) is not None]
    return Diagnosis(
        path=loader.dataset.path,
        pipeline=loader.plan(),
        binding=binding,
        text=_text(binding, seen if is_consumer else case.measured.stats, case.measured),
        samples_per_s=case.measured.rate,
        stats=case.measured.stats,
        advice=tuple(sorted(found, key=lambda advice: -(advice.factor or 0.0))),
    )


def _binding(measured: Measured, *, is_local: bool) -> str:
    binding = find_binding(measured.stats)
    if is_local and measured.waits_for_disk:
        return "disk"
    return "network" if binding == "read" and not is_local else binding


def _text(binding: str, stats: LoaderStats, measured: Measured) -> str:
    loop_s = max(stats.loop_s, 1e-9)
    if binding.startswith("python: "):
        share = stats.stages["python"] / loop_s
        return f"Python: {binding[8:]} takes {stats.python_ops[binding[8:]] / loop_s:.0%} of the time".replace(
            "%", " %"
        ) + (f", all ops in Python {share:.0%}".replace("%", " %") if len(stats.python_ops) > 1 else "")
    values = {
        "wait": stats.wait_s / loop_s,
        "disk": format_bytes(measured.disk_bytes / loop_s),
        "read": format_bytes(stats.bytes_read / loop_s),
    }
    text = _WORDS[binding].format(**values).replace("%", " %")
    seconds = stats.stages.get(binding)
    if not seconds:
        return text
    return f"{text} ({seconds / max(measured.threads_s, 1e-9):.0%} of the threads' time)".replace("%", " %")


def usual_pipelines(dataset: Dataset) -> dict[str, Pipeline | None]:
    """What most trainings do with the fields of a dataset; of what is no picture, nothing."""
    usual = [ops.RandomResizedCrop(224), ops.RandomHorizontalFlip(), ops.ToDtype("float16")]
    return {name: usual for name, field in dataset.schema.items() if field.kind == "image"}


def _usual_loader(
    target: Dataset | PathLike | Sequence[PathLike], pipelines: Mapping[str, Pipeline | None] | None
) -> Loader:
    """What most trainings do with a dataset."""
    plain: Any = target
    first = Loader(plain, 1, drop_last=False)
    if not first.samples:
        raise ValueError(f"{os.fspath(first.dataset.path)} has no samples, so there is nothing to measure")
    if pipelines is None:
        pipelines = usual_pipelines(first.dataset)
    size = min(_BATCH_SIZE, first.samples)
    return first._remade(batch_size=size, order="random", drop_last=True, pipelines=pipelines)
