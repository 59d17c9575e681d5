"""``headrace.zip_fields``: fields of several datasets as one sample."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from headrace._native import crc32c
from headrace.errors import CorruptSampleError, FormatError
from headrace.fields import problem_with_name
from headrace.formats.contract import fetch_many, normalize_indices, values_in_order
from headrace.formats.sets.agreement import checked_parts
from headrace.formats.sets.composite import CompositeDataset, combine_fingerprints, is_among, located_spans, moved_error
from headrace.progress import format_count
from headrace.storage import join_announcements
from headrace.types import Interleaved, Measured, Placed, Sample

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from headrace.types import (
        Announcement,
        Dataset,
        Field,
        ImageSpans,
        IndexArray,
        Indices,
        Interleaving,
        Measures,
        Place,
        Ragged,
        SampleSequence,
        Source,
        StoredSpans,
        TakeArray,
    )

__all__ = ["ZipDataset", "zip_fields"]


class Column(NamedTuple):
    """A field of the whole: which part has it, and its name there."""

    part: int
    name: str


def zip_fields(
    datasets: Mapping[str, Dataset] | Iterable[Dataset],
    *,
    by: Literal["position", "name"] = "position",
    rename: Mapping[str, str] | None = None,
) -> ZipDataset:
    """Put fields of several datasets side by side: sample i has the fields that sample i has in each of them.

    Args:
        datasets: a list of datasets, whose fields keep their names; or a mapping of names to datasets: the only field
            of a dataset gets that name, and of several fields ``label`` of ``{"fine": ...}`` is ``fine_label``.
        by: ``"position"``: samples of the same number belong together, and all datasets are equally long.
            ``"name"``: samples of the same name do. The names and their order are those of the first dataset; each
            other one must have all of them, and what it has besides is left out.
        rename: new names for fields, by the name that they would have.

    Raises:
        ValueError: two fields would have the same name, or the datasets are not equally long.
        FormatError: a name of the first dataset is missing in another one, or samples have no names.

    Example:
        >>> import os, tempfile, headrace
        >>> folder = tempfile.mkdtemp()
        >>> headrace.write(f"{folder}/a.beton", [0, 1, 2], fields={"n": headrace.Int()}, names=["x", "y", "z"])
        >>> headrace.write(f"{folder}/b.beton", [0.2, 0.1, 0.0], fields={"f": headrace.Float()}, names=["z", "y", "x"])
        >>> parts = [headrace.open(f"{folder}/{name}.beton") for name in "ab"]
        >>> headrace.zip_fields(parts, by="name")[2]
        Sample(n=2, f=0.2)
    """
    if by not in ("position", "name"):
        raise ValueError(f"by must be 'position' or 'name', got {by!r}")
    prefixes: list[str] | None = None
    if isinstance(datasets, Mapping):
        prefixes, datasets = list(datasets), list(datasets.values())
    parts = checked_parts(datasets, "zip_fields")
    columns = _renamed(_columns(parts, prefixes), rename or {})
    for name in columns:
        if problem := problem_with_name(name):
            raise ValueError(f"no field can be called that: {problem}")
    return ZipDataset(parts, columns, _matched(parts) if by == "name" else _aligned(parts))


def _columns(parts: Sequence[Dataset], prefixes: list[str] | None) -> list[tuple[str, Column]]:
    columns = []
    for number, part in enumerate(parts):
        for name in part.schema:
            outer = name
            if prefixes is not None:
                outer = prefixes[number] if len(part.schema) == 1 else f"{prefixes[number]}_{name}"
            columns.append((outer, Column(number, name)))
    return columns


def _renamed(columns: list[tuple[str, Column]], rename: Mapping[str, str]) -> dict[str, Column]:
    known = [name for name, _ in columns]
    for old in rename:
        if known.count(old) != 1:
            how = "no field has that name" if old not in known else "several fields have that name"
            raise ValueError(f"rename names {old!r}, and {how}; the fields are {', '.join(known)}")
    renamed: dict[str, Column] = {}
    for name, column in columns:
        outer = rename.get(name, name)
        if outer in renamed:
            raise ValueError(
                f"two fields would be called {outer!r}; give the datasets names, such as "
                "zip_fields({'left': first, 'right': second}), or other names to the fields with rename="
            )
        renamed[outer] = column
    return renamed


def _aligned(parts: Sequence[Dataset]) -> tuple[IndexArray | None, ...]:
    first = parts[0]
    for part in parts[1:]:
        if len(part) != len(first):
            raise ValueError(
                f"{part.path} has {format_count(len(part), 'sample')} and {first.path} {len(first):,}; side by side "
                "they must be equally long. Use by='name' where samples have names, or headrace.subset"
            )
    return (None,) * len(parts)


def _matched(parts: Sequence[Dataset]) -> tuple[IndexArray | None, ...]:
    """Where the samples of the first part are in the others, by name."""
    wanted = list(_names_of(parts[0]))
    maps: list[IndexArray | None] = [None]
    for part in parts[1:]:
        places = {name: number for number, name in enumerate(_names_of(part))}
        if missing := [name for name in wanted if name not in places]:
            raise FormatError(
                part.path,
                problem=f"no sample is called {missing[0]!r}, as one of {parts[0].path} is"
                + (f", and {format_count(len(missing) - 1, 'more name')} are missing" if len(missing) > 1 else ""),
                fix="Choose the samples that both have with headrace.subset(dataset, names=...).",
            )
        maps.append(np.fromiter((places[name] for name in wanted), np.int64, len(wanted)))
    return tuple(maps)


def _names_of(part: Dataset) -> Sequence[str]:
    names = part.keys
    if names is None:
        raise FormatError(part.path, problem="the samples have no names", fix="Use by='position'.")
    return names


class ZipDataset(CompositeDataset):
    """Fields of several datasets side by side; see ``headrace.zip_fields``.

    Args:
        parts: whole datasets.
        columns: the fields of the whole, by name.
        maps: for each part the numbers of its samples; None where they are the same.
    """

    def __init__(
        self, parts: tuple[Dataset, ...], columns: Mapping[str, Column], maps: tuple[IndexArray | None, ...]
    ) -> None:
        super().__init__(parts, " with ".join(dict.fromkeys(part.path for part in parts)))
        self._columns, self._maps = dict(columns), maps
        schema: dict[str, Field] = {name: parts[part].schema[own] for name, (part, own) in columns.items()}
        self._schema = MappingProxyType(schema)

    def __len__(self) -> int:
        return len(self.parts[0])

    def __reduce__(self) -> tuple[Any, ...]:
        return ZipDataset, (self.parts, self._columns, self._maps)

    def _with_parts(self, parts: tuple[Dataset, ...]) -> ZipDataset:
        return ZipDataset(parts, self._columns, self._maps)

    @property
    def schema(self) -> Mapping[str, Field]:
        """The fields by name, part by part."""
        return self._schema

    @property
    def keys(self) -> Sequence[str] | None:
        """Names of the samples of the first part."""
        return self.parts[0].keys

    @property
    def class_names(self) -> Mapping[str, Sequence[str]]:
        """Names of the classes by field."""
        given = {name: self.parts[part].class_names.get(own) for name, (part, own) in self._columns.items()}
        return {name: classes for name, classes in given.items() if classes is not None}

    @property
    def fingerprint(self) -> int:
        """32 bits that change when a part, a field's name or the order of samples is another one."""
        maps = [None if one is None else crc32c(one.astype("<i8")) for one in self._maps]
        return combine_fingerprints(
            self.parts, "zip", [(name, *column) for name, column in self._columns.items()], maps
        )

    def page_numbers(self) -> IndexArray | None:
        """Pages of the first part that has some."""
        for part, numbers in zip(self.parts, self._maps, strict=True):
            pages = part.page_numbers()
            if pages is not None:
                return pages if numbers is None else pages[numbers]
        return None

    @property
    def interleaving(self) -> Interleaving | None:
        """The pattern of the first part that has one, and whose samples stand in its own order."""
        for part, numbers in zip(self.parts, self._maps, strict=True):
            if numbers is None and isinstance(part, Interleaved) and part.interleaving is not None:
                return part.interleaving
        return None

    def origin_of(self, index: int) -> tuple[str, int]:
        """The file of a sample in the first part, and its number there."""
        return self.parts[0].origin_of(index)

    def place_of(self, index: int, field: str) -> Place | None:
        """Where a value lies in the file of its part."""
        number, own = self._column(field)
        part, numbers = self.parts[number], self._numbers(number, np.array([index], np.int64))
        return part.place_of(int(numbers[0]), own) if isinstance(part, Placed) else None

    def _numbers(self, part: int, indices: IndexArray) -> IndexArray:
        numbers = self._maps[part]
        return indices if numbers is None else numbers[indices]

    def announce(self, indices: IndexArray, fields: Sequence[str]) -> Announcement | None:
        """Begin to bring what samples need, from every part that is in a store and has one of the fields."""
        wanted = self._by_part(fields)
        return join_announcements(
            self.parts[number].announce(self._numbers(number, indices), names) for number, names in wanted.items()
        )

    def stored_spans(self, indices: IndexArray, fields: Sequence[str]) -> list[StoredSpans] | None:
        """What ``announce`` of these samples would bring; None where a part does not know."""
        places = np.arange(len(indices))
        return located_spans(
            (self.parts[number], self._numbers(number, indices), names, places)
            for number, names in self._by_part(fields).items()
        )

    def _by_part(self, fields: Sequence[str]) -> dict[int, list[str]]:
        """The names of fields in their parts."""
        wanted: dict[int, list[str]] = {}
        for field in fields:
            number, own = self._column(field)
            wanted.setdefault(number, []).append(own)
        return wanted

    def _column(self, field: str) -> Column:
        if field not in self._columns:
            raise KeyError(f"no field {field!r} in {self._path}; the fields are {', '.join(self._columns)}")
        return self._columns[field]

    @contextlib.contextmanager
    def _asked(self, field: str, indices: IndexArray) -> Iterator[tuple[Dataset, str, IndexArray]]:
        """The part of a field, the field's name there and the samples' numbers; errors are about the whole."""
        number, own = self._column(field)
        numbers = self._numbers(number, indices)
        try:
            yield self.parts[number], own, numbers
        except CorruptSampleError as error:
            met = np.flatnonzero(numbers == error.sample)
            if not len(met):
                raise
            raise moved_error(error, self._path, int(indices[met[0]]), field) from error

    def read_bytes(self, indices: Indices, field: str) -> list[bytes]:
        """Read the stored, undecoded bytes of one field of many samples."""
        with self._asked(field, normalize_indices(indices, len(self))) as (part, own, numbers):
            return part.read_bytes(numbers, own)

    def read_values(
        self, indices: IndexArray, field: str, source: Source | None = None
    ) -> list[Any] | npt.NDArray[Any]:
        """Decoded values of one field."""
        with self._asked(field, indices) as (part, own, numbers):
            return part.read_values(numbers, own)

    def read_arrays(
        self, indices: IndexArray, field: str, take: TakeArray, source: Source | None = None
    ) -> npt.NDArray[Any]:
        """Values of an array field as one array."""
        with self._asked(field, indices) as (part, own, numbers):
            return part.read_arrays(numbers, own, take)

    def read_ragged(self, indices: IndexArray, field: str, source: Source | None = None) -> Ragged:
        """Stored bytes of one field, one value after the other."""
        with self._asked(field, indices) as (part, own, numbers):
            return part.read_ragged(numbers, own)

    def image_spans(self, indices: IndexArray, field: str, source: Source | None = None) -> ImageSpans:
        """The undecoded bytes of pictures, where they are."""
        with self._asked(field, indices) as (part, own, numbers):
            return part.image_spans(numbers, own)

    def measure(self, indices: IndexArray, field: str) -> Measures | None:
        """How large the values of a field are; None when its part does not know."""
        with self._asked(field, indices) as (part, own, numbers):
            return part.measure(numbers, own) if isinstance(part, Measured) else None

    def rows(self, indices: IndexArray) -> list[dict[str, object]]:
        """What a listing says about each sample, by field."""
        each = [part.rows(self._numbers(number, indices)) for number, part in enumerate(self.parts)]
        return [
            {name: each[part][i][own] for name, (part, own) in self._columns.items() if own in each[part][i]}
            for i in range(len(indices))
        ]

    def _samples(self, indices: IndexArray) -> list[Sample]:
        names = tuple(self._schema)
        values = [self.read_values(indices, name) for name in names]
        columns = [value.tolist() if isinstance(value, np.ndarray) and value.ndim == 1 else value for value in values]
        return [Sample(names, row) for row in zip(*columns, strict=True)]

    def sources(self) -> SampleSequence:
        """The samples as a writer takes them: pictures as they are stored."""
        return _ZippedSources(self, tuple(part.sources() for part in self.parts))

    def _places_in(self, part: int, samples: Sequence[int]) -> Mapping[int, int]:
        numbers = self._maps[part]
        if numbers is None:
            return {sample: sample for sample in samples}
        places = np.flatnonzero(is_among(numbers, np.array(samples, np.int64)))
        return dict(zip(numbers[places].tolist(), places.tolist(), strict=True))


@dataclass(frozen=True, slots=True)
class _ZippedSources:
    """What ``sources`` gives: values of all parts, in the order of the fields."""

    dataset: ZipDataset
    parts: tuple[SampleSequence, ...]

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int) -> tuple[Any, ...]:
        return self.__getitems__([index])[0]

    def __getitems__(self, indices: Sequence[int]) -> list[tuple[Any, ...]]:
        """Many of them; each part is asked once."""
        where = normalize_indices(indices, len(self))
        columns = []
        for number, (part, samples) in enumerate(zip(self.dataset.parts, self.parts, strict=True)):
            names = list(part.schema)
            found = fetch_many(samples, self.dataset._numbers(number, where).tolist())
            rows = [values_in_order(sample, names, index) for sample, index in zip(found, where.tolist(), strict=True)]
            columns.append({name: [row[i] for row in rows] for i, name in enumerate(names)})
        return list(zip(*(columns[part][own] for part, own in self.dataset._columns.values()), strict=True))
