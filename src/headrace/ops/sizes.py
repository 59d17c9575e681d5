"""Sizes of crops: one for the whole training, or others from certain epochs on."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from operator import index
from typing import Any, TypeAlias

__all__ = ["Size", "SizeSchedule", "checked_size", "op_at", "size_at", "sizes_of"]

Size: TypeAlias = "int | tuple[int, int] | Mapping[int, int | tuple[int, int]] | SizeSchedule"
"""One number, (height, width), or the first epochs of each size: ``{0: 128, 10: (192, 224)}``."""


@dataclass(frozen=True, slots=True)
class SizeSchedule:
    """A size for each epoch, and nothing but the epoch decides: what a crop makes of a mapping of epochs to sizes.

    Args:
        epochs: the first epoch of each size, ascending from 0.
        sizes: (height, width) from that epoch on.
    """

    epochs: tuple[int, ...]
    sizes: tuple[tuple[int, int], ...]

    def at(self, epoch: int) -> tuple[int, int]:
        """Height and width in an epoch."""
        return self.sizes[max(0, bisect_right(self.epochs, epoch) - 1)]

    def __str__(self) -> str:
        steps = zip(self.epochs, self.sizes, strict=True)
        return ", ".join(f"{width}x{height} from epoch {epoch} on" for epoch, (height, width) in steps)


def checked_size(size: Size) -> tuple[int, int] | SizeSchedule:
    """Height and width from one number or two, or those of each epoch."""
    if isinstance(size, SizeSchedule):
        return size
    return _schedule(size) if isinstance(size, Mapping) else _pair(size)


def _schedule(sizes: Mapping[int, int | tuple[int, int]]) -> SizeSchedule:
    for epoch in sizes:
        problem = f"size by epoch: an epoch is a whole number from 0 on, got {epoch!r} in {dict(sizes)}"
        if isinstance(epoch, bool) or not hasattr(epoch, "__index__"):
            raise TypeError(problem)
        if index(epoch) < 0:
            raise ValueError(problem)
    by_epoch = sorted((index(epoch), _pair(size)) for epoch, size in sizes.items())
    if not by_epoch or by_epoch[0][0] != 0:
        raise ValueError(f"size by epoch must begin with epoch 0, such as {{0: 128, 10: 224}}, got {dict(sizes)}")
    return SizeSchedule(*zip(*by_epoch, strict=True))


def _pair(size: int | tuple[int, int]) -> tuple[int, int]:
    pair = tuple(index(side) for side in (size if isinstance(size, Iterable) else (size, size)))
    if len(pair) != 2 or min(pair) < 1 or max(pair) > 65_535:
        raise ValueError(f"size must be a number or (height, width), 1 to 65535, got {size}")
    return pair[0], pair[1]


def size_at(size: Size, epoch: int) -> tuple[int, int]:
    """Height and width in an epoch."""
    if isinstance(size, int):  # most are, for every batch; the op that has it has checked it
        return size, size
    checked = checked_size(size)
    return checked.at(epoch) if isinstance(checked, SizeSchedule) else checked


def sizes_of(size: Size) -> tuple[int | None, int | None]:
    """Height and width where they are the same in all epochs."""
    checked = checked_size(size)
    sizes = checked.sizes if isinstance(checked, SizeSchedule) else (checked,)
    height, width = ({pair[axis] for pair in sizes} for axis in (0, 1))
    return height.pop() if len(height) == 1 else None, width.pop() if len(width) == 1 else None


def op_at(op: Any, epoch: int) -> Any:
    """The op as it is in an epoch, with one size."""
    size = getattr(op, "size", None)
    return replace(op, size=size.at(epoch)) if isinstance(size, SizeSchedule) else op
