"""``penstock.Loader``: any dataset as batches."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from penstock._native import ImageLoader, crc32c
from penstock.formats import open_dataset
from penstock.formats.base import BaseDataset, normalize_indices
from penstock.loader.engine import Prefetcher
from penstock.loader.plan import FieldPlan, Moment, compile_pipeline
from penstock.order import ArrayOrder, BatchPlan, Order, RandomOrder, SequentialOrder, SubsetOrder, quasi_random_order
from penstock.types import Batch

if TYPE_CHECKING:
    from penstock.errors import PathLike
    from penstock.types import IndexArray, Indices

__all__ = ["Loader"]

OrderFunction: TypeAlias = Callable[[int, int, int], "IndexArray"]
OrderChoice: TypeAlias = Literal["sequential", "random", "quasi_random"] | OrderFunction
_STATE_VERSION = 1


class Loader:
    """Turns a dataset into batches, ahead of the consumer, the same for any number of workers.

    One ``for`` loop is one epoch. A batch unpacks in field order and knows the fields' names; numbers, arrays and
    pictures come as arrays, everything else as lists.

    Args:
        dataset: a dataset or the path of one.
        batch_size: samples in a batch (of this rank).
        order: ``"sequential"``, ``"random"``, ``"quasi_random"`` (shuffled, but only about ``pool_pages`` pages of the
            file are in use at a time), or a function of (n, seed, epoch) that gives an array of indices below n.
        seed: fixes shuffling and augmentation, together with the epoch.
        workers: threads that decode; by default one for each core.
        pipelines: field name to a list of ops, or None to leave the field out. Fields that are not named are
            loaded as they are.
        indices: use only these samples.
        drop_last: leave out a last batch that is not full.
        batches_ahead: how many batches are computed before they are asked for.
        rank: which of the processes this is, when several share an epoch.
        world: how many there are.
        pool_pages: see order.

    Example:
        >>> import os, tempfile, penstock
        >>> path = os.path.join(tempfile.mkdtemp(), "numbers.beton")
        >>> penstock.write(path, [(i, i / 2) for i in range(10)], fields={"n": penstock.Int(), "x": penstock.Float()})
        >>> loader = penstock.Loader(path, 4, order="random", seed=1)
        >>> len(loader), [batch.n.shape for batch in loader]
        (2, [(4,), (4,)])
    """

    def __init__(
        self,
        dataset: BaseDataset | PathLike,
        batch_size: int,
        *,
        order: OrderChoice = "sequential",
        seed: int = 0,
        workers: int | None = None,
        pipelines: Mapping[str, Sequence[Any] | None] | None = None,
        indices: Indices | None = None,
        drop_last: bool = True,
        batches_ahead: int = 3,
        rank: int = 0,
        world: int = 1,
        pool_pages: int = 16,
    ) -> None:
        opened: Any = dataset if isinstance(dataset, BaseDataset) else open_dataset(dataset)
        self.dataset: BaseDataset = opened
        self.seed = seed
        self.epoch = 0
        self._batches = BatchPlan(batch_size=batch_size, drop_last=drop_last, rank=rank, world=world)
        self._indices = None if indices is None else normalize_indices(indices, len(self.dataset))
        self._order_choice = order
        self._pool_pages = pool_pages
        if batches_ahead < 1:
            raise ValueError(f"batches_ahead must be at least 1, got {batches_ahead}")
        self._batches_ahead = batches_ahead
        self._plans = self._compile(pipelines or {})
        self._native = ImageLoader(_checked_workers(workers))
        self._order(0)  # a wrong order is told now, not in the first epoch
        self._step = 0
        self._is_begun = False

    def _compile(self, pipelines: Mapping[str, Sequence[Any] | None]) -> dict[str, FieldPlan]:
        schema = self.dataset.schema
        for name in pipelines:
            if name not in schema:
                raise ValueError(f"pipelines names the field {name!r}; the fields are {', '.join(schema)}")
        wanted = {name: pipelines.get(name, ()) for name in schema}
        return {
            name: compile_pipeline(name, schema[name], list(ops)) for name, ops in wanted.items() if ops is not None
        }

    @property
    def samples(self) -> int:
        """Samples of an epoch, over all ranks."""
        return len(self.dataset) if self._indices is None else len(self._indices)

    def __len__(self) -> int:
        """Batches of an epoch."""
        return self._batches.steps(self.samples)

    def plan(self) -> str:
        """Say in words what is done to each field, and what was fused."""
        lines = [f"{name}: {plan.describe()}" for name, plan in self._plans.items()]
        lines += [f"{name}: left out" for name in self.dataset.schema if name not in self._plans]
        return "\n".join(lines)

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch of the next loop."""
        self.epoch, self._step, self._is_begun = epoch, 0, False

    def __iter__(self) -> Iterator[Batch]:
        if self._is_begun:  # the last loop was left early: this one is the next epoch
            self.set_epoch(self.epoch + 1)
        self._is_begun = True
        steps, epoch = len(self), self.epoch
        batches = Prefetcher(self._compute(epoch), self._step, steps, self._batches_ahead)
        try:
            for batch in batches:
                self._step += 1
                yield batch
            self.set_epoch(epoch + 1)
        finally:
            batches.close()

    def _compute(self, epoch: int) -> Callable[[int], Batch]:
        order, moment = self._order(epoch), Moment(self.seed, epoch)
        batches, dataset, plans, native = self._batches, self.dataset, self._plans, self._native
        names = tuple(plans)

        def compute(step: int) -> Batch:
            indices = batches.batch(order, step)
            return Batch(names, tuple(plan.run(dataset, indices, moment, native) for plan in plans.values()))

        return compute

    def _order(self, epoch: int) -> Order:
        n, choice = self.samples, self._order_choice
        order: Order
        if choice == "sequential":
            order = SequentialOrder(n)
        elif choice == "random":
            order = RandomOrder(n, self.seed, epoch)
        elif choice == "quasi_random":
            order = self._quasi_random(epoch)
        elif callable(choice):
            order = ArrayOrder(_checked_order(choice(n, self.seed, epoch), n))
        else:
            raise ValueError(f"order must be 'sequential', 'random', 'quasi_random' or a function, got {choice!r}")
        return order if self._indices is None else SubsetOrder(self._indices, order)

    def _quasi_random(self, epoch: int) -> Order:
        pages = self.dataset.page_numbers()
        if pages is None:
            return RandomOrder(self.samples, self.seed, epoch)
        chosen = pages if self._indices is None else pages[self._indices]
        return quasi_random_order(chosen, pool_pages=self._pool_pages, seed=self.seed, epoch=epoch)

    def state_dict(self) -> dict[str, Any]:
        """Where the loader stands, as a small dict that JSON can hold.

        In a loop the batch at hand counts as used. The same state serves all ranks, and any number of them as long as
        the global batch stays the same.
        """
        return {
            "version": _STATE_VERSION,
            "epoch": self.epoch,
            "samples_used": self._step * self._batches.global_batch,
            "seed": self.seed,
            "global_batch": self._batches.global_batch,
            "drop_last": self._batches.drop_last,
            "order": self._order_choice if isinstance(self._order_choice, str) else "function",
            "pool_pages": self._pool_pages,
            "samples": self.samples,
            "dataset": self.dataset.fingerprint,
            "pipelines": crc32c(repr(self._plans).encode()),
            "indices": 0 if self._indices is None else crc32c(self._indices.astype("<i8")),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where a state was taken, at once; the next loop gives the batches that were left.

        Raises:
            ValueError: the state belongs to another dataset or to other options.
        """
        expected = self.state_dict()
        if set(state) != set(expected):
            raise ValueError(f"this is not the state of a loader: it has {sorted(state)}, expected {sorted(expected)}")
        for key in expected.keys() - {"epoch", "samples_used"}:
            if state[key] != expected[key]:
                raise ValueError(
                    f"the state was taken with {key}={state[key]!r}, and this loader has {key}={expected[key]!r}; "
                    "it would not go on with the same batches"
                )
        used, step_size = int(state["samples_used"]), self._batches.global_batch
        if used % step_size or not 0 <= used // step_size <= len(self):
            raise ValueError(f"samples_used={used} is not a whole number of steps of {step_size} within an epoch")
        self.set_epoch(int(state["epoch"]))
        self._step = used // step_size


def _checked_workers(workers: int | None) -> int:
    if workers is None:
        return len(os.sched_getaffinity(0))
    if workers < 1:
        raise ValueError(f"workers must be at least 1, got {workers}")
    return workers


def _checked_order(indices: Any, n: int) -> IndexArray:
    array = np.asarray(indices)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise TypeError(f"the order function gave {array.dtype} of shape {array.shape}, expected n integers")
    if len(array) != n:
        raise ValueError(f"the order function gave {len(array)} indices, expected {n}")
    return normalize_indices(array, n)
