"""``headrace.mix``: datasets in proportions.

Which dataset the sample at a place comes from, and how many samples of that dataset stand before it, is fixed by the
weights alone (see ``proportions``). Which sample of the dataset it is, is fixed by seed, epoch and that number: the
dataset is gone through in a shuffled order, and then again in another one. The next epoch goes on where the last one
ended, so that of a dataset with a small weight other samples come in every epoch, until all have come. The order of a
Loader exchanges samples of the same dataset only (``Interleaved``), so the proportions stay what they are.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from headrace._native import permute
from headrace.arrays import distinct
from headrace.formats.contract import index_chunks
from headrace.formats.sets.agreement import checked_parts
from headrace.formats.sets.composite import combine_fingerprints
from headrace.formats.sets.proportions import Proportions, whole_shares
from headrace.formats.sets.routed import RoutedDataset

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from headrace.types import Dataset, IndexArray, Interleaving

__all__ = ["MixDataset", "mix"]

_MIXTURE = 0x6D01  # what the key of a permutation ends with, so that it is that of no other room
_WORD = (1 << 64) - 1
_MANY = 1 << 20

Weight: TypeAlias = float | Fraction


def mix(
    datasets: Iterable[Dataset], weights: Sequence[float], seed: int = 0, *, length: int | None = None
) -> MixDataset:
    """Mix datasets in proportions that hold from the first sample on.

    In every beginning of the mixture, however short, the number of samples of each dataset is less than one away from
    its share, whatever the order of the Loader. Each dataset is shuffled by seed and epoch, and begins anew, in another
    order, when it has come to its end; the next epoch goes on where the last one ended. So ``order="sequential"`` gives
    shuffled samples already, and ``order="quasi_random"`` those of one page of a dataset together.

    A mixture of mixtures is one mixture: the weights are multiplied, and the seed and length of the inner ones are not
    used.

    Args:
        datasets: what ``headrace.open`` gave, of any formats, with the same fields.
        weights: the share of each; they need not sum to 1.
        seed: fixes the order, together with the epoch of the Loader.
        length: samples of an epoch; by default as many as the datasets have together.

    Raises:
        FormatError: the fields or the classes are not the same; the message names the field and both files.

    Example:
        >>> import os, tempfile, headrace
        >>> folder = tempfile.mkdtemp()
        >>> for name, values in (("a", range(100)), ("b", range(100, 110))):
        ...     headrace.write(os.path.join(folder, f"{name}.beton"), values, fields={"n": headrace.Int()})
        >>> parts = [headrace.open(os.path.join(folder, f"{name}.beton")) for name in "ab"]
        >>> mixed = headrace.mix(parts, [0.75, 0.25], seed=1)
        >>> len(mixed), sum(sample.n >= 100 for sample in mixed[:40])
        (110, 10)
    """
    parts = checked_parts(datasets, "mix")
    shares = _checked_weights(weights, parts)
    count = sum(map(len, parts)) if length is None else length
    if isinstance(count, bool) or not hasattr(count, "__index__") or count < 0:
        raise ValueError(f"length must be a whole number that is not negative, got {length!r}")
    return MixDataset(*_flat(parts, shares), int(seed), int(count))


def _flat(parts: tuple[Dataset, ...], weights: tuple[float, ...]) -> tuple[tuple[Dataset, ...], tuple[Weight, ...]]:
    """The parts of mixtures stand for themselves: only so do the proportions of all hold in every beginning."""
    if not any(isinstance(part, MixDataset) for part in parts):
        return parts, weights
    flat: list[tuple[Dataset, Weight]] = []
    for part, outer in zip(parts, whole_shares(weights), strict=True):
        if isinstance(part, MixDataset):
            inner = whole_shares(part.weights)
            flat += zip(part.parts, (Fraction(outer * share, sum(inner)) for share in inner), strict=True)
        else:
            flat.append((part, outer))
    return tuple(part for part, _ in flat), tuple(weight for _, weight in flat)


def _checked_weights(weights: Sequence[float], parts: Sequence[Dataset]) -> tuple[float, ...]:
    shares = tuple(weights)
    if len(shares) != len(parts):
        raise ValueError(f"weights must have one number for each dataset: {len(parts)}, got {len(shares)}")
    for share, part in zip(shares, parts, strict=True):
        if not math.isfinite(share) or share < 0:
            raise ValueError(f"weights must be numbers from 0 on, got {share!r} for {part.path}")
        if share > 0 and not len(part):
            raise ValueError(f"{part.path} has no samples, and its weight is {share!r}; leave it out")
    if not any(shares):
        raise ValueError("all weights are 0; one at least must be larger")
    return shares


class MixDataset(RoutedDataset):
    """Datasets in proportions; see ``headrace.mix``.

    Args:
        parts: whole datasets with the same fields.
        weights: the share of each.
        seed: fixes the order, together with epoch.
        length: samples of an epoch.
        epoch: which of the epochs this is.
        proportions: those of another epoch, which are the same.
    """

    def __init__(
        self,
        parts: tuple[Dataset, ...],
        weights: tuple[Weight, ...],
        seed: int,
        length: int,
        epoch: int = 0,
        proportions: Proportions | None = None,
    ) -> None:
        super().__init__(parts, f"a mixture of {', '.join(part.path for part in parts)}")
        self.weights, self.seed, self.epoch = weights, seed, epoch
        self._length = length
        self._proportions = Proportions(weights, length) if proportions is None else proportions

    def __len__(self) -> int:
        return self._length

    def __reduce__(self) -> tuple[Any, ...]:
        return MixDataset, (self.parts, self.weights, self.seed, self._length, self.epoch)

    def _with_parts(self, parts: tuple[Dataset, ...]) -> MixDataset:
        return MixDataset(parts, self.weights, self.seed, self._length, self.epoch, self._proportions)

    def for_epoch(self, epoch: int) -> Dataset:
        """The mixture of another epoch: the same datasets at the same places, other samples of them."""
        parts = tuple(part.for_epoch(epoch) for part in self.parts)
        if epoch == self.epoch and all(one is other for one, other in zip(parts, self.parts, strict=True)):
            return self
        return MixDataset(parts, self.weights, self.seed, self._length, epoch, self._proportions)

    @property
    def fingerprint(self) -> int:
        """32 bits that change when a dataset or the mixture is another one; all epochs have the same."""
        return combine_fingerprints(self.parts, "mix", self.weights, self.seed, self._length)

    @property
    def interleaving(self) -> Interleaving:
        """Which place belongs to which dataset."""
        return self._proportions

    def _route(self, indices: IndexArray) -> tuple[IndexArray, IndexArray]:
        parts, before = self._proportions.locate(indices)
        numbers = np.empty(len(indices), np.int64)
        for part in distinct(parts).tolist():
            here = parts == part
            numbers[here] = self._shuffled(part, before[here] + self.epoch * self._proportions.totals[part])
        return parts, numbers

    def _shuffled(self, part: int, counts: IndexArray) -> IndexArray:
        """Which samples of a part come as the first, second and so on of all epochs."""
        n = len(self.parts[part])
        rounds, places = np.divmod(counts, n)
        numbers = np.empty(len(counts), np.int64)
        for number in distinct(rounds).tolist():
            here = rounds == number
            key = [self.seed & _WORD, number & _WORD, part, _MIXTURE]
            numbers[here] = permute(np.ascontiguousarray(places[here]), n, key)
        return numbers

    def page_numbers(self) -> IndexArray | None:
        """Number of the page of each sample; None when no part has pages, and a part without is one page.

        When a dataset begins anew its pages get other numbers: copies of a sample do not belong together.
        """
        pages = [part.page_numbers() for part in self.parts]
        if all(one is None for one in pages):
            return None
        found = np.empty(self._length, np.int64)
        first = 0
        for part, own in enumerate(pages):
            total, n = self._proportions.totals[part], max(1, len(self.parts[part]))
            per_round = 1 if own is None else int(own.max(initial=0)) + 1
            begin, first_round = self.epoch * total, self.epoch * total // n
            for some in index_chunks(total, _MANY):
                counts = some + begin
                page = first + (counts // n - first_round) * per_round
                page += 0 if own is None else own[self._shuffled(part, counts)]
                found[self._proportions.places_of(part, some)] = page
            first += ((begin + total) // n - first_round + 1) * per_round
        return found
