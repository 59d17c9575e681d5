"""torch's DataLoader for datasets that take whole lists of indices, and that can begin in the middle of an epoch.

Contract. Batches are those of torch's loader with the same arguments. A dataset of ``ffrecord.torch`` is asked once for
a batch, with the list of its indices; any other dataset is asked as torch does it. Nothing of torch is changed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch.utils.data import DataLoader as TorchDataLoader
from torch.utils.data import IterableDataset, Sampler, default_collate, default_convert

from headrace.compat.ffrecord.torch.dataset import Dataset
from headrace.compat.passed_on import pass_on

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["DataLoader", "SkipableSampler"]
pass_on(
    globals(),
    "Iterator List Sampler",
    Dataset="headrace.compat.ffrecord.torch.dataset.Dataset",
    TorchDataLoader="torch.utils.data.DataLoader",
)

_PREFETCH_FACTOR = 2


class SkipableSampler(Sampler):  # type: ignore[misc]
    """A batch sampler without its first batches.

    They are drawn and dropped: what follows is what would have followed without skipping.

    Args:
        batch_sampler: gives the batches.
        step: how many batches are left out.

    Example:
        >>> list(SkipableSampler([[0, 1], [2, 3], [4]], 1))
        [[2, 3], [4]]
    """

    def __init__(self, batch_sampler: Any, step: int = 0) -> None:
        self.batch_sampler = batch_sampler
        self.step = step

    def set_step(self, step: int) -> None:
        """Leave out so many batches, from the next epoch on."""
        self.step = step

    def __len__(self) -> int:
        return len(self.batch_sampler) - self.step

    def __iter__(self) -> Iterator[Any]:
        for number, batch in enumerate(self.batch_sampler):
            if number >= self.step:
                yield batch


class _Lists:
    """Single indices as lists of one."""

    def __init__(self, sampler: Any) -> None:
        self._sampler = sampler

    def __len__(self) -> int:
        return len(self._sampler)

    def __iter__(self) -> Iterator[Any]:
        for index in self._sampler:
            yield index if isinstance(index, list) else [index]


class DataLoader(TorchDataLoader):  # type: ignore[misc]
    """Batches of a dataset, read by workers ahead of use.

    Args:
        dataset: one of ``ffrecord.torch``, or any other of torch.
        batch_size: samples of a batch; None for one sample after the other.
        shuffle: a new order in every epoch.
        sampler: gives indices.
        batch_sampler: gives lists of indices.
        num_workers: processes; 0 for none.
        collate_fn: makes a batch from a list of samples.
        pin_memory: put batches into memory that a GPU can copy from.
        drop_last: leave out a last batch that is not full.
        timeout: seconds to wait for a batch; 0 waits for ever.
        worker_init_fn: called in each worker with its number.
        generator: draws the order.
        prefetch_factor: batches that each worker is ahead.
        persistent_workers: keep the workers between epochs.
        skippable: ``set_step`` can be used.
        multiprocessing_context: how workers start: ``"fork"`` (as in FFRecord, which knows no other), ``"spawn"``,
            ``"forkserver"``, or a context.
        **options: what else torch's DataLoader takes.
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = 1,
        shuffle: bool = False,
        sampler: Any = None,
        batch_sampler: Any = None,
        num_workers: int = 0,
        collate_fn: Callable[[Any], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], None] | None = None,
        generator: Any = None,
        *,
        prefetch_factor: int | None = _PREFETCH_FACTOR,
        persistent_workers: bool = False,
        skippable: bool = True,
        multiprocessing_context: Any = None,
        **options: Any,
    ) -> None:
        self.skippable = skippable
        if num_workers == 0 and prefetch_factor == _PREFETCH_FACTOR:
            prefetch_factor = None  # the default; torch wants none where there are no workers
        if num_workers > 0 and multiprocessing_context is None:
            multiprocessing_context = "fork"
        is_batched = batch_size is not None or batch_sampler is not None
        if collate_fn is None:
            collate_fn = default_collate if is_batched else default_convert
        super().__init__(
            dataset,
            batch_size=batch_size,
            shuffle=shuffle,
            sampler=sampler,
            batch_sampler=batch_sampler,
            num_workers=num_workers,
            collate_fn=collate_fn,
            pin_memory=pin_memory,
            drop_last=drop_last,
            timeout=timeout,
            worker_init_fn=worker_init_fn,
            multiprocessing_context=multiprocessing_context,
            generator=generator,
            prefetch_factor=prefetch_factor,
            persistent_workers=persistent_workers,
            **options,
        )
        if skippable and self.batch_sampler is None:
            raise AssertionError(
                "batches can only be skipped where there are any; batch_size=None needs skippable=False"
            )
        # One object for the whole life of the loader: workers that are kept between epochs keep it, too.
        self._batches = SkipableSampler(self.batch_sampler)

    def set_step(self, step: int) -> None:
        """Begin each epoch at this batch, until another step is set; ``len(loader)`` shrinks by it.

        The order is that of a whole epoch: with the same generator the batches are those that were still to come.

        Raises:
            AssertionError: there is no such batch, or the loader is not skippable.
            TypeError: the dataset is iterable, so its batches cannot be skipped without reading them.
        """
        if not self.skippable:
            raise AssertionError("the loader was made with skippable=False, so no batches can be skipped")
        if isinstance(self.dataset, IterableDataset):
            raise TypeError("batches of an iterable dataset cannot be skipped without reading them")
        length = len(self.batch_sampler)
        if not 0 <= step < length or step != int(step):
            raise AssertionError(f"step must be a whole number from 0 to {length - 1}, got {step}")
        self._batches.set_step(int(step))

    @property
    def _takes_lists(self) -> bool:
        return isinstance(self.dataset, Dataset)

    # torch asks for dataset[index] with what the index sampler gives, if it is told not to make batches itself. So a
    # dataset gets a whole list by its public [...], in this process and in workers. The batch sampler stays the user's.

    @property
    def _auto_collation(self) -> bool:
        return self.batch_sampler is not None and not self._takes_lists

    @property
    def _index_sampler(self) -> Any:
        if self.batch_sampler is not None:
            return self._batches
        return _Lists(self.sampler) if self._takes_lists else self.sampler
