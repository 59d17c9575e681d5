"""What a loader has done, and how long each stage of it took."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from headrace._native import LoadCounts
from headrace.loader.job import counts_by_name
from headrace.loader.stages import NATIVE_STAGES, STAGES
from headrace.progress import format_bytes, format_count

if TYPE_CHECKING:
    from headrace.loader.stages import BatchClock

__all__ = ["LoaderStats", "StageLine", "find_binding", "needed_seconds", "stage_lines"]

_MOST_CHANGES = 64
_SELDOM = 0.05  # a consumer that waits for less than this share of the loop is the slow one


@dataclass(slots=True)
class LoaderStats:
    """What a loader has done since it was made; ``print(loader.stats)`` shows it by stage.

    ``wait_s`` is how long the consumer waited for batches, of the ``loop_s`` that its loops lasted; ``idle_s`` how long
    the loader did nothing because ``batches_ahead`` batches were ready. ``stages`` has the seconds of each stage, those
    of the native call over all its threads; ``python_ops`` those of each op in Python. ``begin_s`` and ``finish_s`` are
    how long the loader's threads read and decoded, and ran Python ops. ``bytes_read`` counts stored bytes, as far as
    they can be told cheaply. ``workers`` and ``batches_ahead`` are what is in use now, and ``changes`` says how a
    loader that tunes itself came to that. ``jpegs`` counts how JPEGs were decoded, and why not by their index.
    """

    batches: int = 0
    samples: int = 0
    samples_skipped: int = 0
    wait_s: float = 0.0
    idle_s: float = 0.0
    loop_s: float = 0.0
    begin_s: float = 0.0
    finish_s: float = 0.0
    bytes_read: int = 0
    stages: dict[str, float] = field(default_factory=lambda: dict.fromkeys(STAGES, 0.0))
    python_ops: dict[str, float] = field(default_factory=dict)
    workers: int = 1
    batches_ahead: int = 1
    changes: list[str] = field(default_factory=list)
    jpegs: dict[str, int] = field(default_factory=lambda: counts_by_name(LoadCounts()))
    warned: set[str] = field(default_factory=set, repr=False)  # kinds of notes

    def add(self, clock: BatchClock) -> None:
        """Add what one part of a batch took; one thread at a time."""
        for stage, seconds in clock.seconds.items():
            self.stages[stage] += seconds
        for name, seconds in clock.python_ops.items():
            self.python_ops[name] = self.python_ops.get(name, 0.0) + seconds
        self.bytes_read += clock.bytes_read

    def copy(self) -> LoaderStats:
        """The same numbers, which do not change any more."""
        kept = replace(self)
        for name in ("stages", "python_ops", "changes", "jpegs", "warned"):
            setattr(kept, name, getattr(self, name).copy())
        return kept

    def since(self, before: LoaderStats) -> LoaderStats:
        """What was done since a copy was made."""
        done = self.copy()
        for name in ("batches", "samples", "samples_skipped", "wait_s", "idle_s", "loop_s", "begin_s", "finish_s"):
            setattr(done, name, getattr(self, name) - getattr(before, name))
        done.bytes_read -= before.bytes_read
        for own, old in ((done.stages, before.stages), (done.python_ops, before.python_ops)):
            own.update({name: seconds - old.get(name, 0.0) for name, seconds in own.items()})
        done.jpegs = {name: count - before.jpegs[name] for name, count in done.jpegs.items()}
        return done

    def note_change(self, text: str) -> None:
        """Keep what the loader has changed about itself; the last few."""
        self.changes.append(text)
        del self.changes[:-_MOST_CHANGES]

    @property
    def native_s(self) -> float:
        """Seconds that the threads of the native call worked, all of them together."""
        return sum(self.stages[stage] for stage in NATIVE_STAGES)

    def __str__(self) -> str:
        loop_s = max(self.loop_s, 1e-9)
        head = (
            f"{format_count(self.batches, 'batch')}, {format_count(self.samples, 'sample')} in {self.loop_s:.2f} s: "
            f"{self.samples / loop_s:,.0f} samples/s, {format_bytes(self.bytes_read / loop_s)}/s stored"
        )
        lines = [f"{'stage':<24}{'seconds':>10}{'share':>8}{'alone, samples/s':>18}"]
        lines += [line.text() for line in stage_lines(self.copy())]  # while threads go on counting
        tail = [
            f"consumer waited {self.wait_s:.2f} s ({self.wait_s / loop_s:.0%} of the loop); "
            f"loader idle {self.idle_s:.2f} s ({self.idle_s / loop_s:.0%})",
            f"workers {self.workers}, batches ahead {self.batches_ahead}; {find_binding(self.copy())} binds",
        ]
        return "\n".join([head, *lines, *tail, *(f"  {change}" for change in self.changes[-3:])])


@dataclass(frozen=True, slots=True)
class StageLine:
    """One stage: its seconds, its share of all stages, and how many samples a second it could do alone."""

    name: str
    seconds: float
    share: float
    alone_per_s: float

    def text(self) -> str:
        """The line of a table."""
        return f"{self.name:<24}{self.seconds:>10.3f}{self.share:>8.1%}{self.alone_per_s:>18,.0f}"


def stage_lines(stats: LoaderStats) -> list[StageLine]:
    """The stages that took any time, in the order in which they happen; ops in Python each by its name."""
    parts = [(stage, stage, seconds) for stage, seconds in stats.stages.items() if stage != "python"]
    place = STAGES.index("python")
    parts[place:place] = [(f"python: {name}", "python", seconds) for name, seconds in stats.python_ops.items()]
    whole_s = sum(seconds for _, _, seconds in parts)
    return [
        StageLine(name, seconds, seconds / whole_s, stats.samples * _hands(stage, stats) / seconds)
        for name, stage, seconds in parts
        if seconds > 0
    ]


def _hands(stage: str, stats: LoaderStats) -> int:
    """How many threads do a stage at a time."""
    if stage in NATIVE_STAGES:
        return stats.workers
    return 2 if stage in ("read", "gpu") else 1


def find_binding(stats: LoaderStats) -> str:
    """What holds the loop back: ``consumer``, a stage, or an op in Python by its name; ``nothing`` before a loop."""
    if not stats.samples or stats.loop_s <= 0:
        return "nothing"
    if stats.wait_s < _SELDOM * stats.loop_s:
        return "consumer"
    needed_s = needed_seconds(stats)
    return max(needed_s, key=lambda name: needed_s[name])


def needed_seconds(stats: LoaderStats) -> dict[str, float]:
    """How long each part of the work lasted that goes on beside the others, by what took most of it.

    The stages of the native call share its threads, and those in Python the one thread that runs at a time; the loop
    cannot be faster than the longest of these.
    """
    native = max(NATIVE_STAGES, key=lambda stage: stats.stages[stage])
    python = max(stats.python_ops, key=lambda name: stats.python_ops[name], default="")
    needed_s = {
        native: stats.native_s / stats.workers,
        f"python: {python}": stats.stages["python"] + stats.stages["collate"],
        "read": stats.stages["read"] / 2,
        "gpu": stats.stages["gpu"] / 2,
        "copy": stats.stages["copy"],
    }
    if not python:
        needed_s["collate"] = needed_s.pop("python: ")
    return needed_s
