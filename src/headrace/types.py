"""Words that every room shares: Sample, the whole contracts Dataset, Writer and Field, and reports."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol, TypeAlias, TypeVar, overload, runtime_checkable

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

__all__ = [
    "Announcement",
    "Batch",
    "BlockTimes",
    "Buffer",
    "Dataset",
    "Encoded",
    "EncodedChunk",
    "Encoder",
    "Facts",
    "Field",
    "ImageSpans",
    "IndexArray",
    "Indices",
    "Interleaved",
    "Interleaving",
    "Located",
    "Measured",
    "Measures",
    "Output",
    "Padded",
    "Place",
    "Placed",
    "Problem",
    "ProblemProgress",
    "Progress",
    "Ragged",
    "RepairReport",
    "Report",
    "Sample",
    "SampleBlocks",
    "SampleSequence",
    "Source",
    "StoredSpans",
    "Summary",
    "TakeArray",
    "Viewing",
    "Writer",
    "missing_members",
]

IndexArray: TypeAlias = npt.NDArray[np.int64]
Indices: TypeAlias = Sequence[int] | npt.NDArray[np.integer[Any]] | range
Buffer: TypeAlias = bytes | bytearray | memoryview | npt.NDArray[np.uint8]
Facts: TypeAlias = tuple[int | float, ...]
TakeArray: TypeAlias = Callable[[tuple[int, ...], npt.DTypeLike], npt.NDArray[Any]]
"""Makes an array of a shape and dtype; what it holds is whatever the memory held before."""


class Encoded(NamedTuple):
    """One value of one field, ready to be stored.

    ``facts`` are the few numbers a reader needs before it sees the payload (their meaning is the field's:
    the value of an Int, mode, width and height of an Image); ``payload`` holds the bytes, None for scalars.
    """

    facts: Facts
    payload: bytes | None


@runtime_checkable
class Field(Protocol):
    """The type of one column: how a value is encoded, and what comes back."""

    kind: ClassVar[str]
    has_payload: ClassVar[bool]

    def encode(self, value: Any, index: int) -> Encoded:
        """Turn a value into facts and payload; ``index`` is the sample's place in the new file."""
        ...

    def decode(self, facts: Facts, payload: memoryview) -> Any:
        """Turn stored facts and payload back into the value; the result owns its memory."""
        ...

    def view(self, facts: Facts, payload: npt.NDArray[np.uint8]) -> npt.NDArray[Any]:
        """Give the stored bytes a shape without copying them; ValueError when they are compressed."""
        ...

    def max_size_bytes(self) -> int | None:
        """Give an upper bound of the payload's size, or None when there is none."""
        ...


class _NamedValues:
    """Values in field order that are also known by name.

    It counts as a Sequence but does not inherit ``index`` and ``count``: fields may have these names.
    """

    __slots__ = ("_names", "_values")

    def __init__(self, names: tuple[str, ...], values: tuple[Any, ...]) -> None:
        self._names = names
        self._values = values

    @overload
    def __getitem__(self, key: int | str) -> Any: ...
    @overload
    def __getitem__(self, key: slice) -> tuple[Any, ...]: ...
    def __getitem__(self, key: int | str | slice) -> Any:
        if isinstance(key, str):
            try:
                return self._values[self._names.index(key)]
            except ValueError:
                raise KeyError(f"no field {key!r}; the fields are {', '.join(self._names)}") from None
        return self._values[key]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        try:
            return self._values[self._names.index(name)]
        except ValueError:
            raise AttributeError(f"no field {name!r}; the fields are {', '.join(self._names)}") from None

    def __len__(self) -> int:
        return len(self._values)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._values)

    def __repr__(self) -> str:
        inside = ", ".join(f"{name}={_brief(value)}" for name, value in zip(self._names, self._values, strict=True))
        return f"{type(self).__name__}({inside})"

    def __reduce__(self) -> tuple[type[_NamedValues], tuple[tuple[str, ...], tuple[Any, ...]]]:
        return type(self), (self._names, self._values)

    def keys(self) -> tuple[str, ...]:
        """Names of the fields, in order (this also makes ``dict()`` work)."""
        return self._names


Sequence.register(_NamedValues)


class Sample(_NamedValues):
    """The values of one sample, in field order and by name.

    Example:
        >>> sample = Sample(("image", "label"), (b"...", 3))
        >>> image, label = sample
        >>> sample.label, sample["label"], sample[1], dict(sample)["label"]
        (3, 3, 3, 3)
    """

    __slots__ = ()


class Batch(_NamedValues):
    """The values of many samples: an array for each field, or a list where values have no common shape.

    It unpacks in field order (``images, labels = batch``) and knows the names (``batch.image``, ``batch["image"]``).
    """

    __slots__ = ()

    def to(self, *arguments: Any, **options: Any) -> Batch:
        """The batch with every tensor moved, as ``tensor.to`` does it; everything else stays as it is."""
        return Batch(self._names, tuple(_moved(value, arguments, options) for value in self._values))


def _moved(value: Any, arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
    if isinstance(value, Padded | Ragged):
        return type(value)(*(_moved(part, arguments, options) for part in value))
    return value.to(*arguments, **options) if hasattr(value, "to") else value


def _brief(value: object) -> str:
    if isinstance(value, np.ndarray):
        return f"<{value.dtype} {'x'.join(map(str, value.shape))}>"
    if isinstance(value, bytes | str) and len(value) > 40:
        return f"<{type(value).__name__} of {len(value)}>"
    return repr(value)


@dataclass(frozen=True, kw_only=True, slots=True)
class Problem:
    """One thing that ``verify`` found wrong."""

    sample: int | None
    field: str | None
    message: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Report:
    """What ``verify`` found.

    ``samples_checked`` counts the samples looked at, ``checksums_checked`` and ``images_decoded`` the values
    behind them; a file without checksums can only be checked for structure and decodability.
    """

    path: str
    samples_checked: int
    checksums_checked: int
    images_decoded: int
    size_bytes: int
    problems: tuple[Problem, ...]
    problems_left_out: int = 0

    @property
    def ok(self) -> bool:
        """Nothing wrong was found."""
        return not self.problems

    @property
    def bad_samples(self) -> tuple[int, ...]:
        """Indices of the samples with a problem, ascending."""
        return tuple(sorted({p.sample for p in self.problems if p.sample is not None}))


@dataclass(frozen=True, kw_only=True, slots=True)
class RepairReport:
    """What ``repair`` did: a sentence for each thing that a killed writer had left; none where all was well."""

    path: str
    done: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class ImageSpans:
    """Where the bytes of a batch of pictures are: in one region of memory, not decoded.

    ``modes`` is 0 for JPEG, 1 for raw RGB pixels, 2 for PNG and 3 for WebP, where the native core decodes those.
    ``checksums`` are those that the bytes should have (CRC-32C); the decoder compares. ``tile_indices`` are those of
    the JPEGs, packed: a region of memory, and where in it each begins and how long it is (0: there is none).
    """

    base: npt.NDArray[np.uint8]
    offsets: npt.NDArray[np.uint64]
    sizes: npt.NDArray[np.uint64]
    modes: npt.NDArray[np.uint8]
    widths: npt.NDArray[np.uint32]
    heights: npt.NDArray[np.uint32]
    checksums: npt.NDArray[np.uint32] | None = None
    tile_indices: tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint64], npt.NDArray[np.uint64]] | None = None


class Place(NamedTuple):
    """Where the stored bytes of a value lie: in which file, from which byte on, how many, and on which page of it.

    It says what the file says: where that is damaged, the bytes may lie outside of it.
    """

    path: str
    offset: int
    size_bytes: int
    page: int | None = None


class Padded(NamedTuple):
    """Values of different lengths in one array, zeros after each value.

    ``lengths`` has one number for each value, or one for each of its axes when there are several.
    """

    values: Any
    lengths: Any


class Ragged(NamedTuple):
    """Values of different lengths one after the other; value i is ``values[offsets[i]:offsets[i + 1]]``."""

    values: Any
    offsets: Any


class Source(Protocol):
    """Where the bytes of a file are found in memory, when they are not simply mapped."""

    def locate(
        self, pointers: npt.NDArray[np.uint64], sizes: npt.NDArray[np.uint64]
    ) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint64]]:
        """For spans of the file, a region of memory and where in it they begin."""
        ...


BlockTimes: TypeAlias = Callable[[str, Sequence[int]], Mapping[int, float]]
"""For the path of a file and numbers of its blocks: when each is used next; what nobody knows is left out."""


class Announcement(Protocol):
    """Bytes on their way to this machine; they stay until it is closed."""

    @property
    def size_bytes(self) -> int:
        """Bytes that it takes in memory."""
        ...

    def wait(self) -> None:
        """Return when all of them are here; raises what went wrong on their way."""
        ...

    def close(self, *, used_up: bool = False) -> None:
        """Let them go, also those that are still on their way. Does nothing the second time.

        Args:
            used_up: they are not needed again soon, so their memory may go before that of others.
        """
        ...

    def distrust(self) -> None:
        """What came is not what was stored: keep nothing of it for later, so that it is brought anew."""
        ...

    @property
    def is_cached(self) -> bool:
        """What is brought is kept on the local disk, so that it matters when it is needed again."""
        ...

    def needed_again(self, use: float, next_use: float | BlockTimes) -> None:
        """Say when it is used and when it is used next, by ``time.time()``: all of it, or each block by itself.

        What is brought for several announcements is needed again at the earliest of their times that comes after a use.
        """
        ...


class Output(Protocol):
    """Brings batches to where they are used, such as a GPU.

    ``send`` begins the way of a batch and must not wait for it; ``receive`` ends it. ``is_device`` says that sending is
    worth doing ahead. ``allocate`` makes memory that can be sent fast. ``gpu`` is the number of the CUDA device where
    batches end, or None; pictures may be decoded there, into arrays that ``empty`` makes. Where a
    ``part`` of such an array is an array like any other, on the same memory, small batches are decoded together.
    """

    is_device: bool
    gpu: int | None

    def allocate(self, size_bytes: int) -> npt.NDArray[np.uint8]:
        """Memory for batches."""
        ...

    def empty(self, shape: tuple[int, ...], dtype: str, native: Any) -> Any:
        """An array on the GPU, C-contiguous, with ``__dlpack__``; nothing that is queued anywhere uses its memory.

        Several threads may call it. It is filled by the time that it is sent. ``native`` is the GpuImageLoader, whose
        ``empty`` serves frameworks that take memory from outside.
        """
        ...

    def transposed(self, array: Any, axes: tuple[int, ...]) -> Any:
        """What ``empty`` made, filled by now, with its axes in another order."""
        ...

    @property
    def part(self) -> Callable[[Any, int, int], Any] | None:
        """Gives the samples from one to before another of what ``empty`` made, without a copy; None: it cannot."""
        ...

    def send(self, batch: Batch, modules: Mapping[str, tuple[Any, ...]]) -> Any:
        """Begin; the modules named for a field are applied to it on arrival."""
        ...

    def receive(self, sent: Any) -> Batch:
        """End: the batch as the consumer gets it."""
        ...


class Viewing(Protocol):
    """A page in a browser that is served by this process, until it is closed."""

    @property
    def url(self) -> str:
        """Where the page is; whoever knows it can see it."""
        ...

    def close(self) -> None:
        """End it. Does nothing the second time."""
        ...

    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Progress(Protocol):
    """What long work calls as it advances."""

    def __call__(self, done: int, total: int | None, size_bytes: int) -> None:
        """Take the number of samples done, their total if known, and the bytes handled so far."""
        ...


@runtime_checkable
class ProblemProgress(Progress, Protocol):
    """Progress of ``verify`` that is also told what is wrong, as it is found."""

    def found(self, problems: Sequence[Problem]) -> None:
        """Take problems that are new; the report has all of them, and may leave out some that were told here."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Summary:
    """What is known of a dataset without decoding it: values for programs, and the same in words.

    ``headline`` says how much there is; ``fields`` describes each field, empty where there are none; ``details`` are
    pairs of a name and what is to be said about it.
    """

    values: Mapping[str, object]
    headline: str
    fields: Mapping[str, str]
    details: Sequence[tuple[str, str]] = ()


class SampleSequence(Protocol):
    """Samples by number, as a writer takes them."""

    def __len__(self) -> int: ...
    def __getitem__(self, index: int, /) -> Any: ...


class SampleBlocks(SampleSequence, Protocol):
    """Samples that can also be fetched many at a time, as PyTorch does it: for what has row groups, chunks or spans."""

    def __getitems__(self, indices: Sequence[int], /) -> Iterable[Any]:
        """Samples in the order of the indices, which may repeat; what is large is decoded as it is drawn."""
        ...


class LendingSamples(SampleBlocks, Protocol):
    """Samples whose bytes need not be copied on their way into a file."""

    def lend(self, indices: Sequence[int], /) -> Iterable[Any]:
        """As ``__getitems__``, but bytes may be views of memory that is lent, which stays as it is; for encoders."""
        ...


@runtime_checkable
class Dataset(Protocol):
    """A random-access sequence of samples with a schema: what ``headrace.open`` returns.

    This is all that the loader, the writers and the command use of a dataset. A format's own class need not write all
    of it: ``headrace.formats.contract.BaseDataset`` has an answer for whatever a format does not do better itself.
    """

    @property
    def path(self) -> str:
        """Where it was opened."""
        ...

    @property
    def schema(self) -> Mapping[str, Field]:
        """The fields by name, in order."""
        ...

    @property
    def keys(self) -> Sequence[str] | None:
        """Names of the samples, or None when they have none."""
        ...

    @property
    def class_names(self) -> Mapping[str, Sequence[str]]:
        """Names of the classes by field, empty when there are none."""
        ...

    @property
    def folders(self) -> Sequence[str]:
        """Folders that are part of it, empty ones too, for formats that keep them."""
        ...

    @property
    def fingerprint(self) -> int:
        """32 bits that change when the dataset is another one; a loader's state is tied to it."""
        ...

    @property
    def has_checksums(self) -> bool:
        """Every value can be checked against a checksum."""
        ...

    @property
    def jpegs_indexed(self) -> int:
        """JPEGs that have a tile index, by which crops are decoded without the rest of their pictures."""
        ...

    @property
    def page_size(self) -> int | None:
        """Bytes of a page, or None when the format has no pages."""
        ...

    @property
    def reading(self) -> str:
        """How its bytes are read where no pages are read ahead of use, in words."""
        ...

    def __len__(self) -> int: ...
    @overload
    def __getitem__(self, key: int | str) -> Sample: ...
    @overload
    def __getitem__(self, key: slice | Indices) -> list[Sample]: ...
    def __iter__(self) -> Iterator[Sample]: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def close(self) -> None:
        """Let go of the file. Views that were handed out stay valid."""
        ...

    @property
    def is_local(self) -> bool:
        """All of its bytes lie on this machine."""
        ...

    def announce(self, indices: IndexArray, fields: Sequence[str]) -> Announcement | None:
        """Begin to bring what these samples need, ahead of their use; None where there is nothing to bring."""
        ...

    def read_bytes(self, indices: Indices, field: str) -> list[bytes]:
        """Read the stored, undecoded bytes of one field of many samples."""
        ...

    def read_values(
        self, indices: IndexArray, field: str, source: Source | None = None
    ) -> list[Any] | npt.NDArray[Any]:
        """Decoded values of one field; an array where they have one dtype and shape."""
        ...

    def read_arrays(
        self, indices: IndexArray, field: str, take: TakeArray, source: Source | None = None
    ) -> npt.NDArray[Any]:
        """Values of an array field as one array; ``take`` makes it where the format can fill one."""
        ...

    def read_ragged(self, indices: IndexArray, field: str, source: Source | None = None) -> Ragged:
        """Stored bytes of one field, one value after the other."""
        ...

    def image_spans(self, indices: IndexArray, field: str, source: Source | None = None) -> ImageSpans:
        """The undecoded bytes of pictures, checked for place and size but not decoded."""
        ...

    def page_numbers(self) -> IndexArray | None:
        """Number of the page each sample lies on, or None when the format has no pages."""
        ...

    def sources(self) -> SampleSequence:
        """The samples as a writer takes them: pictures as they are stored, so that none is encoded twice."""
        ...

    def rows(self, indices: IndexArray) -> list[dict[str, object]]:
        """What a listing says about each sample, by field, without decoding where that is possible."""
        ...

    def check_file(self) -> None:
        """Raise FormatError when the file was cut short while it was read, so that what came out means nothing."""
        ...

    def with_checksums(self, is_checked: bool) -> Dataset:
        """The same dataset, its values checked as they are read, or not; where there are no checksums, itself."""
        ...

    def for_epoch(self, epoch: int) -> Dataset:
        """The dataset as a loader reads it in an epoch: itself, unless its samples are others in every epoch.

        Length, fields and fingerprint are always the same.
        """
        ...

    def origin_of(self, index: int) -> tuple[str, int]:
        """The path that a sample comes from, and its number there, for datasets that are made of others."""
        ...

    def verify(self, *, decode: bool = False, workers: int | None = None, progress: Progress | None = None) -> Report:
        """Check the structure and every checksum; with ``decode`` also that every value decodes."""
        ...

    def show(self, samples: int | str | slice | Indices | None = None, *, count: int = 12, side: int = 128) -> object:
        """Look at samples: a notebook draws what this gives, anywhere else they are printed."""
        ...


class Interleaving(Protocol):
    """Which of several sources each place of a dataset belongs to, in a pattern that is the same in every epoch."""

    @property
    def totals(self) -> Sequence[int]:
        """How many places each source has."""
        ...

    def locate(self, places: IndexArray) -> tuple[IndexArray, IndexArray]:
        """The source of each place, and how many places of that source stand before it."""
        ...

    def places_of(self, source: int, numbers: IndexArray) -> IndexArray:
        """Where the places of a source are, by their number in that source: what ``locate`` does, undone."""
        ...


@runtime_checkable
class Interleaved(Protocol):
    """What a dataset has besides, if orders must keep its pattern; most datasets have none and need not know of it.

    An order then exchanges samples of the same source only, and ranks take neighbouring places.
    """

    @property
    def interleaving(self) -> Interleaving | None:
        """The pattern, or None when there is none."""
        ...


@runtime_checkable
class Placed(Protocol):
    """What a dataset has besides, if it can say where its values lie; whoever reads samples need not know of it."""

    def place_of(self, index: int, field: str) -> Place | None:
        """Where the stored bytes of a value lie, or None where they are not in one piece, or not known."""
        ...


class Measures(NamedTuple):
    """Bytes of stored values; of pictures also their sides, where they are known."""

    sizes: npt.NDArray[np.integer[Any]]
    widths: npt.NDArray[np.integer[Any]] | None = None
    heights: npt.NDArray[np.integer[Any]] | None = None


@runtime_checkable
class Measured(Protocol):
    """What a dataset has besides, if it knows how large its values are without reading them."""

    def measure(self, indices: IndexArray, field: str) -> Measures | None:
        """How large the values of a field are; None when that is not known of this field."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class StoredSpans:
    """Spans of one file that samples need.

    Attributes:
        path: of the file.
        size_bytes: of the file.
        owners: for each span, which of the samples needs it, by its place among those that were asked for.
        offsets: where the spans begin.
        sizes: of the spans.
    """

    path: str
    size_bytes: int
    owners: IndexArray
    offsets: npt.NDArray[np.uint64]
    sizes: npt.NDArray[np.uint64]

    def of(self, owners: IndexArray) -> StoredSpans:
        """The same spans for samples that have other places: these, by those that they had."""
        return StoredSpans(self.path, self.size_bytes, owners[self.owners], self.offsets, self.sizes)


@runtime_checkable
class Located(Protocol):
    """What a dataset has besides, if it knows for all samples at once where their bytes lie.

    A cache on the local disk then keeps what is needed first in any order.
    """

    def stored_spans(self, indices: IndexArray, fields: Sequence[str]) -> Sequence[StoredSpans] | None:
        """What ``announce`` of these samples would bring; None where nobody knows."""
        ...


class EncodedChunk(Protocol):
    """Consecutive samples that a writer's encoder has encoded and that are not yet in the file."""

    @property
    def sizes(self) -> npt.NDArray[np.uint64]:
        """Bytes of each payload, samples x payload fields."""
        ...

    def __len__(self) -> int: ...


Chunk = TypeVar("Chunk", bound=EncodedChunk)
ChunkOut = TypeVar("ChunkOut", bound=EncodedChunk, covariant=True)


class Encoder(Protocol[ChunkOut]):
    """Turns samples into a chunk; picklable, without state, safe in any thread or process."""

    def __call__(self, samples: Iterable[Any], *, first_index: int) -> ChunkOut:
        """Encode samples that will stand from ``first_index`` on."""
        ...


class Writer(Protocol[Chunk]):
    """Takes samples; nothing exists under the final name until ``close`` succeeded.

    Many workers encode with ``encoder``, and one thread hands the chunks to ``append_chunk``, in order.
    """

    @property
    def encoder(self) -> Encoder[Chunk]:
        """What encodes samples for this writer."""
        ...

    @property
    def size_bytes(self) -> int:
        """Bytes of the samples taken so far."""
        ...

    def __len__(self) -> int:
        """Samples taken so far."""
        ...

    def append(self, sample: Any, *, name: str | None = None) -> None:
        """Add one sample: a tuple in field order, a mapping, or the bare value of a single field."""
        ...

    def append_chunk(self, chunk: Chunk, *, names: Sequence[str] | None = None) -> None:
        """Add samples that ``encoder`` has encoded, and their names; chunks must come in order."""
        ...

    def close(self) -> None:
        """Finish the file and give it its name."""
        ...

    def abort(self) -> None:
        """Throw away what was written; nothing is left behind."""
        ...

    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


_OPERATORS = ("__len__", "__getitem__", "__iter__", "__enter__", "__exit__")


def missing_members(value: object, contract: type) -> list[str]:
    """Names of what a contract asks for and a value does not have.

    Example:
        >>> missing_members(range(3), EncodedChunk)
        ['sizes']
    """
    names = [name for name in vars(contract) if name in _OPERATORS or not name.startswith("_")]
    return sorted(name for name in names if not hasattr(type(value), name) and name not in _own_names(value))


def _own_names(value: object) -> Iterable[str]:
    return getattr(value, "__dict__", ())
