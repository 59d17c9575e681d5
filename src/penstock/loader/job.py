"""What the making of one batch needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.ops import Draws

if TYPE_CHECKING:
    from penstock._native import ImageLoader
    from penstock.errors import CorruptSampleError
    from penstock.formats.base import BaseDataset
    from penstock.loader.slots import SlotPool
    from penstock.types import IndexArray, Source

__all__ = ["BadSamples", "Job"]


@dataclass(frozen=True, slots=True)
class Job:
    """One batch: which samples, at what moment, with what tools.

    ``source`` is where the file's bytes are when they are not simply mapped.
    """

    dataset: BaseDataset
    indices: IndexArray
    seed: int
    epoch: int
    native: ImageLoader
    slots: SlotPool
    source: Source | None = None

    def draws(self, key: int) -> Draws:
        """The random numbers of one op for this batch."""
        return Draws(self.seed, self.epoch, key, self.indices)


class BadSamples(Exception):
    """Some samples of a batch are damaged; never leaves the loader."""

    def __init__(self, errors: list[CorruptSampleError]) -> None:
        super().__init__(errors)
        self.errors = errors
