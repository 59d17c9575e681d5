"""What the making of one batch needs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headrace._native import LoadCounts
from headrace.loader.stages import BatchClock
from headrace.ops import Draws

if TYPE_CHECKING:
    from headrace._native import ImageLoader
    from headrace.errors import CorruptSampleError
    from headrace.loader.gpu import GpuDecoder
    from headrace.loader.slots import SlotPool
    from headrace.types import Dataset, IndexArray, Source

__all__ = ["BadSamples", "Job", "JpegNote", "counts_by_name"]


def counts_by_name(counts: LoadCounts) -> dict[str, int]:
    """How JPEGs were decoded, as ``LoaderStats.jpegs`` has it."""
    return {
        "gpu": counts.gpu,  # the window, by the GPU
        "window": counts.window,  # only what the crop needs, from the entry points of its tile index
        "window_without_index": counts.window_without_tile_index,  # the same, searched from the picture's beginning
        # jpeg="libjpeg", reduced decoding, no tile index and no AVX-512 or jpeg="slice"
        "libjpeg_by_options": counts.libjpeg_by_options,
        "libjpeg_by_kind": counts.libjpeg_by_kind,  # progressive and other kinds
        "libjpeg_by_damage": counts.libjpeg_by_damage,
        "indices_rejected": counts.rejected_tile_indices,  # damaged, or of other bytes
    }


@dataclass(frozen=True, slots=True)
class JpegNote:
    """A picture that was decoded without its tile index, or in spite of damage."""

    sample: int
    field: str
    kind: str  # "tile_index" or "damage"
    problem: str


@dataclass(frozen=True, slots=True)
class Job:
    """One batch: which samples, at what moment, with what tools.

    ``source`` is where the file's bytes are when they are not simply mapped. ``jpeg_counts`` counts how JPEGs were
    decoded; ``jpeg_notes`` tells of those that were not as they should be; ``clock`` how long the stages took.
    """

    dataset: Dataset
    indices: IndexArray
    seed: int
    epoch: int
    native: ImageLoader
    slots: SlotPool
    source: Source | None = None
    jpeg: str = "window"
    is_fast: bool = False
    gpu: GpuDecoder | None = None  # does the runs that are marked for it
    jpeg_counts: LoadCounts = field(default_factory=LoadCounts)
    jpeg_notes: list[JpegNote] = field(default_factory=list)
    clock: BatchClock = field(default_factory=BatchClock)

    def draws(self, key: int) -> Draws:
        """The random numbers of one op for this batch."""
        return Draws(self.seed, self.epoch, key, self.indices)


class BadSamples(Exception):
    """Some samples of a batch are damaged; never leaves the loader."""

    def __init__(self, errors: list[CorruptSampleError]) -> None:
        super().__init__(errors)
        self.errors = errors
