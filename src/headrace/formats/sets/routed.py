"""A dataset whose samples are those of other datasets.

A batch is split by part with numpy; each part is asked once for all that it has of the batch, and what comes is put
back into order. If a whole batch lies in one part, what that part gives is passed on untouched, without a copy. There
is no state that changes: any number of threads may read, and fork and pickling work as those of the parts do.
"""

from __future__ import annotations

import contextlib
from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from headrace.errors import CorruptSampleError
from headrace.formats.contract import fetch_many, index_chunks, normalize_indices, values_in_order
from headrace.formats.sets.agreement import agreed_class_names, agreed_schema
from headrace.formats.sets.composite import CompositeDataset, combine_fingerprints, is_among, located_spans, moved_error
from headrace.formats.sets.merged import (
    merge_arrays,
    merge_lists,
    merge_measures,
    merge_ragged,
    merge_spans,
    merge_values,
)
from headrace.formats.sets.names import RoutedNames
from headrace.storage import join_announcements
from headrace.types import Measured, Placed, Sample

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from headrace.formats.sets.merged import Piece
    from headrace.types import (
        Announcement,
        Dataset,
        Field,
        ImageSpans,
        IndexArray,
        Indices,
        Measures,
        Place,
        Ragged,
        SampleSequence,
        Source,
        StoredSpans,
        TakeArray,
    )

__all__ = ["RoutedDataset"]

Value = TypeVar("Value")
_BLOCK = 1 << 16


class _Share(NamedTuple):
    """What one part has of a batch: places in the batch, and numbers of the samples in the part."""

    dataset: Dataset
    places: IndexArray
    numbers: IndexArray


class RoutedDataset(CompositeDataset):
    """The half of a composite that reads; subclasses say where samples are.

    Args:
        parts: whole datasets with the same fields.
        path: what messages call it.
    """

    def __init__(self, parts: tuple[Dataset, ...], path: str) -> None:
        super().__init__(parts, path)
        self._schema = agreed_schema(parts)
        self._class_names = agreed_class_names(parts)

    @abstractmethod
    def _route(self, indices: IndexArray) -> tuple[IndexArray, IndexArray]:
        """For samples, the numbers of their parts and their numbers in these."""

    def _find(self, part: int, numbers: IndexArray) -> dict[int, int]:
        """Where samples of a part are in this dataset, each the first time; those that are not are left out."""
        found: dict[int, int] = {}
        for chunk in index_chunks(len(self), _BLOCK):
            parts, theirs = self._route(chunk)
            is_meant = (parts == part) & is_among(theirs, numbers)
            for place, number in zip(chunk[is_meant].tolist(), theirs[is_meant].tolist(), strict=True):
                found.setdefault(number, place)
        return found

    @property
    def schema(self) -> Mapping[str, Field]:
        """The fields of the parts, in the order of the first."""
        return self._schema

    @property
    def class_names(self) -> Mapping[str, Sequence[str]]:
        """Names of the classes by field, which are the same in all parts that have some."""
        return self._class_names

    @property
    def folders(self) -> Sequence[str]:
        """Folders of all parts."""
        return tuple(dict.fromkeys(folder for part in self.parts for folder in part.folders))

    @property
    def keys(self) -> Sequence[str] | None:
        """Names of the samples, or None when a part has none."""
        names = [part.keys if len(part) else () for part in self.parts]
        given = [one for one in names if one is not None]
        return RoutedNames(given, len(self), self._route, self._find) if len(given) == len(names) else None

    @property
    def fingerprint(self) -> int:
        """32 bits that change when a part is another one."""
        return combine_fingerprints(self.parts, type(self).__name__, len(self))

    def origin_of(self, index: int) -> tuple[str, int]:
        """The file of a sample, and its number there."""
        parts, numbers = self._route(np.array([index], np.int64))
        return self.parts[int(parts[0])].origin_of(int(numbers[0]))

    def place_of(self, index: int, field: str) -> Place | None:
        """Where a value lies in the file of its part."""
        parts, numbers = self._route(np.array([index], np.int64))
        part = self.parts[int(parts[0])]
        return part.place_of(int(numbers[0]), field) if isinstance(part, Placed) else None

    def announce(self, indices: IndexArray, fields: Sequence[str]) -> Announcement | None:
        """Begin to bring what samples need, from every part that is in a store."""
        if self.is_local:
            return None
        return join_announcements(share.dataset.announce(share.numbers, fields) for share in self._shares(indices))

    def stored_spans(self, indices: IndexArray, fields: Sequence[str]) -> list[StoredSpans] | None:
        """What ``announce`` of these samples would bring; None where a part does not know."""
        return located_spans((one.dataset, one.numbers, fields, one.places) for one in self._shares(indices))

    def _shares(self, indices: IndexArray) -> list[_Share]:
        if not len(indices):
            return [_Share(self.parts[0], indices, indices)]
        parts, numbers = self._route(indices)
        if (parts == parts[0]).all():
            return [_Share(self.parts[int(parts[0])], np.arange(len(indices)), numbers)]
        order = np.argsort(parts, kind="stable")
        sorted_parts = parts[order]
        cuts = np.flatnonzero(np.diff(sorted_parts)) + 1
        return [_Share(self.parts[int(parts[places[0]])], places, numbers[places]) for places in np.split(order, cuts)]

    def _ask(
        self, indices: IndexArray, question: Callable[[Dataset, IndexArray], Value]
    ) -> list[tuple[Dataset, Piece[Value]]]:
        """Ask each part once for its share of the samples."""
        answers = []
        for share in self._shares(indices):
            with self._renumbered(share, indices):
                answers.append((share.dataset, (share.places, question(share.dataset, share.numbers))))
        return answers

    @contextlib.contextmanager
    def _renumbered(self, share: _Share, indices: IndexArray) -> Iterator[None]:
        """Around what a part does: an error about a sample of it gets the number that the sample has here."""
        try:
            yield
        except CorruptSampleError as error:
            met = share.places[share.numbers == error.sample]
            if not len(met):
                raise
            raise moved_error(error, self._path, int(indices[met[0]]), error.field) from error

    def read_bytes(self, indices: Indices, field: str) -> list[bytes]:
        """Read the stored, undecoded bytes of one field of many samples."""
        where = normalize_indices(indices, len(self))
        answers = self._ask(where, lambda part, numbers: part.read_bytes(numbers, field))
        return merge_lists([piece for _, piece in answers], len(where))

    def read_values(
        self, indices: IndexArray, field: str, source: Source | None = None
    ) -> list[Any] | npt.NDArray[Any]:
        """Decoded values of one field; an array where they have one dtype and shape."""
        answers = self._ask(indices, lambda part, numbers: part.read_values(numbers, field))
        return answers[0][1][1] if len(answers) == 1 else merge_values([piece for _, piece in answers], len(indices))

    def read_arrays(
        self, indices: IndexArray, field: str, take: TakeArray, source: Source | None = None
    ) -> npt.NDArray[Any]:
        """Values of an array field as one array."""
        shares = self._shares(indices)
        each: TakeArray = take if len(shares) == 1 else np.empty
        answers = self._ask(indices, lambda part, numbers: part.read_arrays(numbers, field, each))
        if len(answers) == 1:
            return answers[0][1][1]
        return merge_arrays([piece for _, piece in answers], len(indices), take)

    def read_ragged(self, indices: IndexArray, field: str, source: Source | None = None) -> Ragged:
        """Stored bytes of one field, one value after the other."""
        answers = self._ask(indices, lambda part, numbers: part.read_ragged(numbers, field))
        return answers[0][1][1] if len(answers) == 1 else merge_ragged([piece for _, piece in answers], len(indices))

    def image_spans(self, indices: IndexArray, field: str, source: Source | None = None) -> ImageSpans:
        """The undecoded bytes of pictures: where they are if all lie in one part, else copied into one region."""
        answers = self._ask(indices, lambda part, numbers: part.image_spans(numbers, field))
        if len(answers) == 1:
            return answers[0][1][1]
        merged = merge_spans([piece for _, piece in answers], len(indices))
        for part, _ in answers:  # only now are the bytes read
            part.check_file()
        return merged

    def measure(self, indices: IndexArray, field: str) -> Measures | None:
        """How large the values of a field are; None when a part does not know."""
        answers = self._ask(
            indices, lambda part, numbers: part.measure(numbers, field) if isinstance(part, Measured) else None
        )
        pieces = [(places, found) for _, (places, found) in answers if found is not None]
        return merge_measures(pieces, len(indices)) if len(pieces) == len(answers) else None

    def rows(self, indices: IndexArray) -> list[dict[str, object]]:
        """What a listing says about each sample, by field."""
        answers = self._ask(indices, lambda part, numbers: part.rows(numbers))
        rows = merge_lists([piece for _, piece in answers], len(indices))
        return [{name: row[name] for name in self._schema if name in row} for row in rows]

    def _samples(self, indices: IndexArray) -> list[Sample]:
        answers = self._ask(indices, lambda part, numbers: part[numbers])
        names = tuple(self._schema)
        samples = merge_lists([piece for _, piece in answers], len(indices))
        return [Sample(names, tuple(sample[name] for name in names)) for sample in samples]

    def sources(self) -> SampleSequence:
        """The samples as a writer takes them: pictures as they are stored."""
        return _RoutedSources(self, tuple(part.sources() for part in self.parts))

    def _places_in(self, part: int, samples: Sequence[int]) -> Mapping[int, int]:
        return self._find(part, np.array(samples, np.int64))


@dataclass(frozen=True, slots=True)
class _RoutedSources:
    """What ``sources`` gives: samples of the parts, fields in the order of the whole."""

    dataset: RoutedDataset
    parts: tuple[SampleSequence, ...]

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int) -> Any:
        where = normalize_indices([index], len(self))
        parts, numbers = self.dataset._route(where)
        part, number = int(parts[0]), int(numbers[0])
        try:
            sample = self.parts[part][number]
        except CorruptSampleError as error:
            raise moved_error(error, self.dataset.path, index, error.field) from error
        return self._in_order(part, sample, index)

    def _in_order(self, part: int, sample: Any, index: int) -> tuple[Any, ...]:
        names = list(self.dataset.parts[part].schema)
        values = dict(zip(names, values_in_order(sample, names, index), strict=True))
        return tuple(values[name] for name in self.dataset.schema)

    def __getitems__(self, indices: Sequence[int]) -> list[Any]:
        """Many of them; each part is asked once."""
        where = normalize_indices(indices, len(self))
        parts, numbers = self.dataset._route(where)
        samples: list[Any] = [None] * len(where)
        for part in np.unique(parts).tolist():
            places = np.flatnonzero(parts == part)
            found = fetch_many(self.parts[part], numbers[places].tolist())
            for place, sample in zip(places.tolist(), found, strict=True):
                samples[place] = self._in_order(part, sample, int(where[place]))
        return samples
