"""What all datasets made of datasets share: their parts, and what is said about all of them."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

from headrace._native import crc32c
from headrace.errors import CorruptSampleError
from headrace.formats.contract import BaseDataset
from headrace.formats.report import Found
from headrace.progress import format_count
from headrace.types import Located, Problem, ProblemProgress

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from headrace.types import Dataset, IndexArray, Progress, Report, StoredSpans

__all__ = [
    "CompositeDataset",
    "ProgressAhead",
    "combine_fingerprints",
    "found_in",
    "is_among",
    "located_spans",
    "moved_error",
]

FindSamples: TypeAlias = "Callable[[Sequence[int]], Mapping[int, int]]"


class CompositeDataset(BaseDataset):
    """A dataset over other datasets.

    Args:
        parts: whole datasets.
        path: what messages call it.
    """

    def __init__(self, parts: tuple[Dataset, ...], path: str) -> None:
        self.parts = parts
        self._path = path

    @property
    def path(self) -> str:
        """What messages call it."""
        return self._path

    @property
    def has_checksums(self) -> bool:
        """Every value of every part can be checked."""
        return all(part.has_checksums for part in self.parts)

    @property
    def jpegs_indexed(self) -> int:
        """JPEGs of the whole parts that have a tile index."""
        return sum(part.jpegs_indexed for part in self.parts)

    @property
    def is_local(self) -> bool:
        """All bytes of all parts lie on this machine."""
        return all(part.is_local for part in self.parts)

    @property
    def reading(self) -> str:
        """How the bytes of the parts are read, in words."""
        ways = dict.fromkeys(part.reading for part in self.parts)
        return (
            "; ".join(ways)
            if len(self.parts) == 1
            else f"of {format_count(len(self.parts), 'part')}: {'; '.join(ways)}"
        )

    def with_checksums(self, is_checked: bool) -> Dataset:
        """The same dataset, its values checked as they are read, or not."""
        return self._over(part.with_checksums(is_checked) for part in self.parts)

    def for_epoch(self, epoch: int) -> Dataset:
        """The dataset as it is in an epoch: the parts as they are then."""
        return self._over(part.for_epoch(epoch) for part in self.parts)

    @abstractmethod
    def _with_parts(self, parts: tuple[Dataset, ...]) -> Dataset:
        """The same over other parts, which are as long as these."""

    def _over(self, parts: Iterator[Dataset]) -> Dataset:
        others = tuple(parts)
        is_same = all(one is other for one, other in zip(self.parts, others, strict=True))
        return self if is_same else self._with_parts(others)

    def check_file(self) -> None:
        """Raise FormatError if a file of a part was cut short while it was in use."""
        for part in self.parts:
            part.check_file()

    def close(self) -> None:
        """Close all parts."""
        for part in self.parts:
            part.close()

    def verify(self, *, decode: bool = False, workers: int | None = None, progress: Progress | None = None) -> Report:
        """Check all parts; problems have the numbers that samples have here, and name the file of the part."""
        total, length = Found(), sum(map(len, self.parts))
        for number, part in enumerate(self.parts):
            find = partial(self._places_in, number)
            ahead = ProgressAhead.after(progress, total, length, path=part.path, find=find)
            report = part.verify(decode=decode, workers=workers, progress=ahead)
            total.add(found_in(report, part.path, find(report.bad_samples) if report.bad_samples else {}))
        return total.report(self._path)

    @abstractmethod
    def _places_in(self, part: int, samples: Sequence[int]) -> Mapping[int, int]:
        """Where samples of a part are in this dataset; those that are not are left out."""


def located_spans(
    asked: Iterable[tuple[Dataset, IndexArray, Sequence[str], IndexArray]],
) -> list[StoredSpans] | None:
    """Where the bytes of samples lie; None where a dataset does not know.

    Args:
        asked: datasets, numbers of samples there, names of fields, and the places that these samples have in the whole.
    """
    found: list[StoredSpans] = []
    for dataset, numbers, fields, places in asked:
        if dataset.is_local:
            continue
        spans = dataset.stored_spans(numbers, fields) if isinstance(dataset, Located) else None
        if spans is None:
            return None
        found += [one.of(places) for one in spans]
    return found


@dataclass(frozen=True, slots=True)
class ProgressAhead:
    """Progress of one part as progress of all.

    Args:
        progress: of all.
        samples: done before.
        size_bytes: done before.
        total: samples of all, if known.
        path: of the part.
        find: where samples of the part are among all; those that it does not give are not there.
    """

    progress: Progress
    samples: int
    size_bytes: int
    total: int | None
    path: str
    find: FindSamples

    def found(self, problems: Sequence[Problem]) -> None:
        """Tell what is wrong with the part, where somebody wants to know."""
        if isinstance(self.progress, ProblemProgress):
            samples = sorted({problem.sample for problem in problems if problem.sample is not None})
            self.progress.found(moved_problems(problems, self.path, self.find(samples) if samples else {}))

    def __call__(self, done: int, total: int | None, size_bytes: int) -> None:
        """Advance."""
        self.progress(self.samples + done, self.total, self.size_bytes + size_bytes)

    @classmethod
    def after(
        cls, progress: Progress | None, done: Found, total: int | None, *, path: str, find: FindSamples
    ) -> ProgressAhead | None:
        """What goes on where others have ended; None without progress."""
        return None if progress is None else cls(progress, done.samples, done.size_bytes, total, path, find)


def moved_problems(problems: Sequence[Problem], path: str, places: Mapping[int, int]) -> list[Problem]:
    """Problems of a part as those of the whole; samples that ``places`` does not know do not count."""
    return [
        Problem(
            sample=None if problem.sample is None else places[problem.sample],
            field=problem.field,
            message=problem.message
            if path in problem.message
            else f"{path}{'' if problem.sample is None else f', sample {problem.sample}'}: {problem.message}",
        )
        for problem in problems
        if problem.sample is None or problem.sample in places
    ]


def found_in(report: Report, path: str, places: Mapping[int, int]) -> Found:
    """What was found in a part, its samples numbered as ``places`` says."""
    return Found(
        samples=report.samples_checked,
        checksums=report.checksums_checked,
        images=report.images_decoded,
        size_bytes=report.size_bytes,
        problems=moved_problems(report.problems, path, places),
        problems_left_out=report.problems_left_out,
    )


def moved_error(error: CorruptSampleError, path: str, sample: int, field: str | None) -> CorruptSampleError:
    """An error about a sample of a part as one about a sample of the whole; it still says which file is damaged."""
    problem = f"{error.problem} (this is sample {error.sample} of {error.path})"
    return CorruptSampleError(path, sample=sample, field=field, offset=error.offset, problem=problem, fix=error.fix)


def is_among(numbers: IndexArray, ascending: IndexArray) -> npt.NDArray[np.bool_]:
    """Which of the numbers are among others, which are in ascending order; ``np.isin`` is not safe in threads."""
    if not len(ascending):
        return np.zeros(len(numbers), np.bool_)
    places = np.searchsorted(ascending, numbers)
    found: npt.NDArray[np.bool_] = ascending[np.minimum(places, len(ascending) - 1)] == numbers
    return found


def combine_fingerprints(parts: Sequence[Dataset], *facts: object) -> int:
    """32 bits that change when a part is another one, or one of the facts."""
    return crc32c(repr(([(part.fingerprint, len(part)) for part in parts], facts)).encode())
