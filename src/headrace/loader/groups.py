"""Small batches made together.

A GPU takes nearly as long for 256 pictures as for 1024: a tile is a chain of codes, and a kernel lasts as long as its
longest chain. So a loader whose pictures a GPU makes begins several small batches as one and parts them. The batches
are the same: what is random depends on the sample, not on the batch that it is in, and Python ops still see one batch
at a time. If beginning them together fails, each is begun alone, so that an error comes at the place of its batch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headrace.loader.engine import as_error

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Self

    from headrace.loader.engine import Prefetcher
    from headrace.loader.epoch import Epoch
    from headrace.types import Batch

__all__ = ["GroupMaker", "SingleBatches", "group_size"]

_SAMPLES = 1024  # with more, a kernel takes longer for each of them
_ALIGNED = 64  # samples: then each batch of a group begins at a multiple of 64 bytes, whatever a sample takes


def group_size(batch_size: int, batches_ahead: int) -> int:
    """How many batches are made together; not more than the consumer has room for.

    Example:
        >>> group_size(256, 3), group_size(128, 3), group_size(1024, 3), group_size(256, 1), group_size(100, 3)
        (4, 4, 1, 2, 1)
    """
    return 1 if batch_size % _ALIGNED else max(1, min(_SAMPLES // batch_size, batches_ahead + 1))


@dataclass(frozen=True, slots=True)
class Group:
    """Batches one after the other, and what came instead of the next one, if anything."""

    batches: list[Batch]
    error: BaseException | None


@dataclass(frozen=True, slots=True)
class GroupMaker:
    """Makes groups of the steps from ``first`` to before ``last``; a BatchMaker whose steps are groups."""

    epoch: Epoch
    first: int
    last: int
    size: int

    def __len__(self) -> int:
        return -(-(self.last - self.first) // self.size)

    def _steps(self, number: int) -> range:
        begin = self.first + number * self.size
        return range(begin, min(begin + self.size, self.last))

    def begin(self, number: int) -> tuple[list[Any], BaseException | None]:
        """Read and decode, for several groups at a time."""
        steps = self._steps(number)
        try:
            return self.epoch.begin_together(steps), None
        except Exception:
            return self._begin_each(steps)

    def _begin_each(self, steps: range) -> tuple[list[Any], BaseException | None]:
        begun: list[Any] = []
        try:
            begun.extend(self.epoch.begin(step) for step in steps)
        except BaseException as error:
            return begun, as_error(error)
        return begun, None

    def finish(self, number: int, begun: tuple[list[Any], BaseException | None]) -> Group:
        """Run what is Python, batch by batch."""
        parts, error = begun
        batches: list[Batch] = []
        try:
            for step, part in zip(self._steps(number), parts, strict=False):
                batches.append(self.epoch.finish(step, part))
        except BaseException as problem:
            return Group(batches, as_error(problem))
        return Group(batches, error)


class SingleBatches:
    """The batches of groups, one by one: a Prefetcher of groups as one of batches."""

    def __init__(self, groups: Prefetcher[Group]) -> None:
        self._groups = groups
        self._error: BaseException | None = None
        self._waiting: Iterator[Batch] = iter(())
        self._left = 0

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Batch:
        while not self._left:
            if self._error is not None:
                self._groups.close()
                raise self._error
            group = next(self._groups)
            self._waiting, self._left, self._error = iter(group.batches), len(group.batches), group.error
        self._left -= 1
        return next(self._waiting)

    @property
    def idle_s(self) -> float:
        """How long nothing was made, for as many groups were ready as may wait."""
        return self._groups.idle_s

    def set_batches_ahead(self, batches_ahead: int) -> None:
        """Nothing: how many groups wait follows from their size."""

    @property
    def is_ready(self) -> bool:
        """The next batch can be had without waiting."""
        return bool(self._left) or (self._error is None and self._groups.is_ready)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._waiting, self._left = iter(()), 0
        self._groups.close()
