"""Datasets whose ``[...]`` takes a list of indices and gives a list of samples."""

from __future__ import annotations

import bisect
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from torch.utils.data import Dataset as TorchDataset

from headrace.compat.ffrecord.fileio import FileReader
from headrace.compat.passed_on import pass_on

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import numpy as np
    import numpy.typing as npt

    from headrace.errors import PathLike

__all__ = ["ConcatDataset", "Dataset", "ReaderRegistry", "Subset"]
pass_on(
    globals(),
    "Any Iterable List Sequence Tuple Union bisect defaultdict",
    FileReader="headrace.compat.ffrecord.fileio.FileReader",
    TorchDataset="torch.utils.data.Dataset",
)


class ReaderRegistry:
    """Knows the readers among its attributes, and those of registries among its attributes."""

    @property
    def _readers(self) -> dict[str, FileReader]:
        return {name: value for name, value in vars(self).items() if isinstance(value, FileReader)}

    @property
    def _resitries(self) -> dict[str, ReaderRegistry]:  # FFRecord's spelling
        return {name: value for name, value in vars(self).items() if isinstance(value, ReaderRegistry)}

    def _below(self) -> Iterable[ReaderRegistry]:
        return self._resitries.values()

    def ffreaders(self) -> list[FileReader]:
        """All readers, also those of the registries below; a registry that is reached twice counts once."""
        return list(_walk(self, set()))


def _walk(registry: ReaderRegistry, seen: set[int]) -> Iterator[FileReader]:
    seen.add(id(registry))
    yield from registry._readers.values()
    for other in registry._below():
        if id(other) not in seen:
            yield from _walk(other, seen)


class Dataset(TorchDataset, ReaderRegistry):  # type: ignore[misc]
    """Samples of .ffr files. Subclasses write ``process``, or ``__getitem__`` and ``__len__`` of their own.

    Args:
        fnames: a file, a list of files, or a folder of them.
        check_data: check every sample that is read.

    Example:
        >>> import os, tempfile
        >>> from headrace.compat.ffrecord import FileWriter
        >>> path = os.path.join(tempfile.mkdtemp(), "x.ffr")
        >>> with FileWriter(path, 3) as writer:
        ...     for word in (b"zero", b"one", b"two"):
        ...         writer.write_one(word)
        >>> class Words(Dataset):
        ...     def process(self, indices, data):
        ...         return [array.tobytes().decode() for array in data]
        >>> Words(path)[[2, 0]]
        ['two', 'zero']
    """

    def __init__(self, fnames: PathLike | Sequence[PathLike], check_data: bool = True) -> None:
        self.fnames = fnames
        self.reader = FileReader(fnames, check_data)

    def __len__(self) -> int:
        return self.reader.n

    def __getitem__(self, indices: Any) -> Any:
        if not isinstance(indices, list | tuple):
            raise TypeError(
                f"indices must be a list of integers, got {type(indices).__name__}; the DataLoader, the Subset and the "
                "ConcatDataset of ffrecord.torch hand over lists"
            )
        return self.process(indices, self.reader.read(indices))

    def process(self, indices: Sequence[int], data: list[npt.NDArray[np.uint8]]) -> Any:
        """Make samples from their stored bytes.

        Args:
            indices: which samples these are.
            data: an array of bytes for each of them.

        Returns:
            A list of samples, which goes through the loader's ``collate_fn``.
        """
        raise NotImplementedError(f"{type(self).__name__} must have a method process(self, indices, data)")

    def __add__(self, other: Dataset) -> ConcatDataset:
        return ConcatDataset([self, other])


class Subset(Dataset):
    """Some samples of a dataset, in any order.

    Args:
        dataset: the whole.
        indices: which of its samples.
    """

    def __init__(self, dataset: Dataset, indices: Sequence[int]) -> None:
        self.dataset = dataset
        self.indices = indices

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, indices: Any) -> Any:
        return self.dataset[[self.indices[index] for index in indices]]


class ConcatDataset(Dataset):
    """Datasets one after the other; each reads its share of a batch in one call."""

    def __init__(self, datasets: Iterable[Dataset]) -> None:
        members: list[Any] = list(datasets)
        if not members:
            raise AssertionError("datasets must have at least one dataset in it")
        for number, dataset in enumerate(members):
            if not isinstance(dataset, Dataset):
                kind = type(dataset).__name__
                raise AssertionError(f"datasets[{number}] must be a Dataset of ffrecord.torch, got {kind}")
        self.datasets: list[Dataset] = members
        self.cumulative_sizes = self.cumsum(self.datasets)

    @staticmethod
    def cumsum(sequence: Iterable[Any]) -> list[int]:
        """Where each dataset ends."""
        ends: list[int] = []
        for dataset in sequence:
            ends.append(len(dataset) + (ends[-1] if ends else 0))
        return ends

    def _below(self) -> Iterable[ReaderRegistry]:
        return [*super()._below(), *self.datasets]

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def _place(self, index: int) -> tuple[int, int]:
        """Which dataset a sample belongs to, and its index there."""
        if index < -len(self):
            raise ValueError(f"sample {index} does not exist; the datasets have {len(self)} samples")
        positive = index + len(self) if index < 0 else index
        number = bisect.bisect_right(self.cumulative_sizes, positive)
        if number == len(self.datasets):
            raise IndexError(f"sample {index} does not exist; the datasets have {len(self)} samples")
        return number, positive - (self.cumulative_sizes[number - 1] if number else 0)

    def __getitem__(self, indices: Any) -> Any:
        shares: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
        for position, index in enumerate(indices):
            number, local = self._place(index)
            shares[number].append((position, local))
        samples: list[Any] = [None] * len(indices)
        for number, share in sorted(shares.items()):
            values = self.datasets[number][[local for _, local in share]]
            for i, (position, _) in enumerate(share):
                samples[position] = values[i]
        return samples
