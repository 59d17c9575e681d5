"""Writing .beton files with FFCV's calls.

Files of built-in fields are written by headrace's writer: with checksums, in parallel, the same bytes whatever the
number of workers. A user's own fields encode themselves, in processes that fill pages of their own. Either way the
file gets its name when it is complete, and an exception in a worker is raised here. Only who fills the pages himself,
between ``prepare`` and ``finalize``, has an incomplete file under its name until then.
"""

from __future__ import annotations

import os
from multiprocessing import shared_memory
from typing import TYPE_CHECKING, Any

import numpy as np

import headrace
from headrace.compat.ffcv.fields import (
    BytesField,
    FloatField,
    IntField,
    JSONField,
    NDArrayField,
    RGBImageField,
    TorchTensorField,
)
from headrace.compat.ffcv.fields.rgb_image import checked_pixels
from headrace.compat.ffcv.own_fields import ADVICE, descriptors_of, header_of, write_own_fields
from headrace.compat.ffcv.types import ALLOC_TABLE_TYPE, HeaderType, get_metadata_type
from headrace.compat.ffcv.utils import is_power_of_2
from headrace.compat.passed_on import pass_on
from headrace.errors import MissingExtraError, WorkerDiedError
from headrace.progress import ProgressBar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from headrace.compat.ffcv.fields import Field

__all__ = ["MAX_PAGE_SIZE", "MIN_PAGE_SIZE", "DatasetWriter"]
pass_on(
    globals(),
    "ALLOC_TABLE_TYPE CURRENT_VERSION Callable Field FieldDescType HeaderType List Mapping MemoryAllocator "
    "Process SEEK_END TYPE_ID_HANDLER Value chunks cpu_count ctypes get_metadata_type is_power_of_2 np partial "
    "path shared_memory sleep thread_map tqdm",
    Queue="multiprocessing.Queue",
)

MIN_PAGE_SIZE = 1 << 21
MAX_PAGE_SIZE = 1 << 32
_SUFFIX = ".beton"


class DatasetWriter:
    """Writes a dataset into a .beton file.

    Args:
        fname: the file; any name will do.
        fields: name to field, in the order in which samples have their values.
        page_size: a power of two from 2 MiB to below 4 GiB; all data of a sample must fit into a page.
        num_workers: how many samples are fetched and encoded at a time; by default one for each core.
    """

    def __init__(
        self, fname: Any, fields: Mapping[str, Field], page_size: int = 4 * MIN_PAGE_SIZE, num_workers: int = -1
    ) -> None:
        self.fname = os.fspath(fname)
        self.fields = fields
        self.metadata_type = get_metadata_type(list(fields.values()))
        self.num_workers = num_workers if num_workers >= 1 else len(os.sched_getaffinity(0))
        self.num_samples = 0
        if not is_power_of_2(page_size):
            raise ValueError(f"page_size isn't a power of 2, got {page_size}")
        if page_size < MIN_PAGE_SIZE:
            raise ValueError(f"page_size can't be lower than {MIN_PAGE_SIZE}, got {page_size}")
        if page_size >= MAX_PAGE_SIZE:
            raise ValueError(f"page_size can't be bigger (or =) than {MAX_PAGE_SIZE}, got {page_size}")
        self.page_size = page_size
        self.header: Any = None

    def prepare(self) -> None:
        """Begin a file of ``num_samples`` samples whose pages the caller fills, with a MemoryAllocator.

        Sets ``header``, ``metadata_start``, ``data_region_start``, where pages may begin, and ``metadata_sm``, shared
        memory for records of ``metadata_type``; the caller closes and unlinks it after ``finalize``.
        """
        fields = _short_names(self.fields)
        descriptors = descriptors_of(fields)
        self.header = header_of(fields, self.page_size, self.num_samples)[0]
        with open(self.fname, "wb") as file:
            file.write(self.header.tobytes() + descriptors.tobytes())
        self.metadata_start = HeaderType.itemsize + descriptors.nbytes
        self.data_region_start = self.metadata_start + self.num_samples * self.metadata_type.itemsize
        size = max(1, self.data_region_start - self.metadata_start)  # there is no shared memory of nothing
        self.metadata_sm = shared_memory.SharedMemory(create=True, size=size)

    def finalize(self, allocations: Iterable[tuple[int, int, int]]) -> None:
        """Complete the file that ``prepare`` began.

        Args:
            allocations: sample, pointer and size of each piece of memory, as the ``allocations`` of an allocator.
        """
        if self.header is None:
            raise RuntimeError(f"{self.fname}: finalize() ends what prepare() began, which was not called")
        metadata = self.metadata_sm.buf
        if metadata is None:
            raise RuntimeError(f"{self.fname}: metadata_sm was closed before finalize(), which writes what is in it")
        table = np.array(list(allocations), ALLOC_TABLE_TYPE)
        with open(self.fname, "r+b") as file:
            file.seek(self.metadata_start)
            file.write(metadata[: self.data_region_start - self.metadata_start])
            self.header["alloc_table_ptr"] = file.seek(0, os.SEEK_END)
            file.write(table.tobytes())
            file.seek(0)
            file.write(self.header.tobytes())

    def from_indexed_dataset(
        self, dataset: Any, indices: Any = None, chunksize: int = 100, shuffle_indices: bool = False
    ) -> None:
        """Write what has ``len()`` and ``[i]``.

        Args:
            dataset: gives a tuple of values for each sample.
            indices: which samples, in which order; it stays as it is.
            chunksize: taken for compatibility; the size of chunks follows the size of the samples.
            shuffle_indices: shuffle them, with numpy's global generator.
        """
        if chunksize < 1:
            raise ValueError(f"chunksize must be at least 1, got {chunksize}")
        order = list(range(len(dataset))) if indices is None else list(indices)
        if shuffle_indices:
            np.random.shuffle(order)
        self._write(_Samples(dataset, order, self._values), len(order))

    def from_webdataset(self, shards: list[str], pipeline: Callable[[Any], Iterable[Any]]) -> None:
        """Write tar shards, read by the webdataset package; ``pipeline`` makes tuples of values from it."""
        if self._is_built_in:
            self._write(self._from_shards(shards, pipeline), None)
        else:  # the number of samples decides where the data begin
            self._write(self._from_shards(shards, pipeline), sum(1 for _ in self._from_shards(shards, pipeline)))

    def _from_shards(self, shards: list[str], pipeline: Callable[[Any], Iterable[Any]]) -> Iterator[Any]:
        try:
            from webdataset import WebDataset
        except ImportError:
            raise MissingExtraError("webdataset", extra="webdataset", needed_by="from_webdataset()") from None
        for shard in shards:
            for sample in pipeline(WebDataset(shard, shardshuffle=False)):
                yield self._values(sample)

    @property
    def _is_built_in(self) -> bool:
        return all(type(field) in _TRANSLATED for field in self.fields.values())

    def _values(self, sample: Any) -> tuple[Any, ...]:
        values = tuple(sample)
        if len(values) < len(self.fields):
            raise ValueError(f"the sample has {len(values)} values, and there are {len(self.fields)} fields")
        if not self._is_built_in:
            return values[: len(self.fields)]
        return tuple(_as_headrace(value, field) for value, field in zip(values, self.fields.values(), strict=False))

    def _write(self, samples: Any, count: int | None) -> None:
        fields = _short_names(self.fields)
        with ProgressBar(f"writing {os.path.basename(self.fname)}") as bar:
            if self._is_built_in and count != 0:
                translated = {name: _TRANSLATED[type(field)](field) for name, field in fields.items()}
                self._write_built_in(samples, translated, bar)
            else:
                write_own_fields(self.fname, fields, samples, count or 0, self.page_size, self.num_workers, bar)
        self.num_samples = int(np.fromfile(self.fname, HeaderType, 1)["num_samples"][0])

    def _write_built_in(self, samples: Any, fields: dict[str, Any], bar: ProgressBar) -> None:
        # headrace.write goes by the ending of the name, and FFCV takes any.
        name = self.fname if self.fname.lower().endswith(_SUFFIX) else f"{self.fname}.{os.urandom(4).hex()}{_SUFFIX}"
        page_size, workers = self.page_size, self.num_workers
        try:
            headrace.write(name, samples, fields=fields, page_size=page_size, workers=workers, force=True, progress=bar)
        except WorkerDiedError as error:
            raise WorkerDiedError(ADVICE) from error.__cause__
        if name != self.fname:
            os.replace(name, self.fname)


class _Samples:
    """A user's dataset in the order in which it is written."""

    def __init__(self, dataset: Any, order: list[Any], values_of: Callable[[Any], tuple[Any, ...]]) -> None:
        self._dataset = dataset
        self._order = order
        self._values_of = values_of

    def __len__(self) -> int:
        return len(self._order)

    def __getitem__(self, index: int) -> tuple[Any, ...]:
        return self._values_of(self._dataset[self._order[index]])


def _as_headrace(value: Any, field: Any) -> Any:
    """What headrace's field stores as FFCV's would: numbers are cast, arrays are taken by their bytes."""
    kind = type(field)
    if kind in (IntField, FloatField):
        cell = np.zeros(1, field.metadata_type)
        cell[0] = value
        return cell[0].item()
    if kind is RGBImageField:
        return checked_pixels(value)
    if kind is TorchTensorField:
        return field.as_stored(value.numpy())
    if kind is NDArrayField:
        return field.as_stored(value)
    if kind is BytesField and not isinstance(value, bytes | bytearray | memoryview):
        content = np.empty(value.size, np.uint8)
        content[:] = value
        return content
    return value


def _short_names(fields: Mapping[str, Any]) -> dict[str, Any]:
    short = {name[:16]: field for name, field in fields.items()}
    if len(short) < len(fields):
        raise ValueError(f"names of fields are cut to 16 characters, and then two are the same: {', '.join(fields)}")
    return short


_TRANSLATED: dict[Any, Any] = {
    IntField: lambda field: headrace.Int(),
    FloatField: lambda field: headrace.Float(),
    BytesField: lambda field: headrace.Bytes(),
    JSONField: lambda field: headrace.Json(),
    RGBImageField: lambda field: field.as_headrace(),
    NDArrayField: lambda field: headrace.NDArray(field.dtype, field.shape),
    TorchTensorField: lambda field: headrace.Tensor(field.dtype, field.shape),
}
