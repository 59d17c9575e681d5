"""Where payloads are, checked before anything is read."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from headrace.fields import JPG, RAW

if TYPE_CHECKING:
    from headrace._native import AllocationTable

__all__ = ["Spans", "image_spans"]

_NOT_FOUND = np.uint64(2**64 - 1)


@dataclass(slots=True)
class Spans:
    """Where the payloads of some samples are; ``problems`` tells by position why a payload is not readable."""

    pointers: npt.NDArray[np.uint64]
    sizes: npt.NDArray[np.uint64]
    problems: dict[int, str] = field(default_factory=dict)

    def reject(self, bad: npt.NDArray[np.bool_], problem: str, **facts: npt.NDArray[Any]) -> None:
        """Note a problem for all positions in a mask, worded with their facts, and make their spans empty."""
        facts |= {"ptr": self.pointers, "size": self.sizes}
        for position in np.flatnonzero(bad).tolist():
            values = {name: int(column[position]) for name, column in facts.items()}
            self.problems.setdefault(position, problem.format(**values))
        self.pointers[bad] = 0
        self.sizes[bad] = 0

    def keep_inside(self, first: int, end: int) -> None:
        """Note every span that is not inside [first, end); empty ones may be anywhere."""
        low, high = np.uint64(first), np.uint64(end)
        empty = self.sizes == 0
        outside = ~empty & (
            (self.pointers < low) | (self.pointers > high) | (self.sizes > high - np.minimum(self.pointers, high))
        )
        if outside.any():
            problem = f"{{size}} bytes at byte {{ptr}} are not inside the data pages (bytes {first} to {end})"
            self.reject(outside, problem)
        self.pointers[empty] = 0


def image_spans(members: npt.NDArray[Any], table: AllocationTable, guesses: npt.NDArray[np.uint64]) -> Spans:
    """Spans of pictures: their sizes stand in the allocation table only; ``guesses`` are the rows to try first."""
    pointers = members["data_ptr"].astype(np.uint64)
    spans = Spans(pointers, table.sizes(pointers, guesses))
    mode = members["mode"]
    pixels = members["width"].astype(np.uint64) * members["height"].astype(np.uint64)
    missing = spans.sizes == _NOT_FOUND
    if missing.any():
        spans.reject(missing, "the allocation table has no entry for byte {ptr}")
    unknown = (mode != JPG) & (mode != RAW)
    if unknown.any():
        spans.reject(unknown, "image mode must be 0 (jpg) or 1 (raw), found {mode}", mode=mode)
    sides = {"width": members["width"], "height": members["height"]}
    if (pixels == 0).any():
        spans.reject(pixels == 0, "a picture of {width}x{height} has no pixels", **sides)
    expected = pixels * np.uint64(3)
    wrong = (mode == RAW) & (spans.sizes != expected) & (spans.sizes != 0)
    if wrong.any():
        problem = "raw pixels of {width}x{height} take {expected} bytes, {size} are stored"
        spans.reject(wrong, problem, expected=expected, **sides)
    return spans
