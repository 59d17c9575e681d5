"""Writing .beton files with FFCV's calls.

Files of built-in fields are written by penstock's writer: in parallel, with checksums, and only complete files get the
name. A user's own fields encode themselves, one sample after the other.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

import penstock
from penstock.compat.ffcv.fields import (
    BytesField,
    FloatField,
    IntField,
    JSONField,
    NDArrayField,
    RGBImageField,
    TorchTensorField,
)
from penstock.compat.ffcv.fields.rgb_image import checked_pixels
from penstock.compat.ffcv.memory_allocator import MemoryAllocator
from penstock.compat.ffcv.types import (
    ALLOC_TABLE_TYPE,
    CURRENT_VERSION,
    TYPE_ID_HANDLER,
    FieldDescType,
    HeaderType,
    get_metadata_type,
)
from penstock.compat.ffcv.utils import is_power_of_2
from penstock.errors import MissingExtraError, WriteError
from penstock.progress import ProgressBar
from penstock.storage import AtomicFile

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.compat.ffcv.fields import Field

__all__ = ["MAX_PAGE_SIZE", "MIN_PAGE_SIZE", "DatasetWriter"]

MIN_PAGE_SIZE = 1 << 21
MAX_PAGE_SIZE = 1 << 32


class DatasetWriter:
    """Writes a dataset into a .beton file.

    Args:
        fname: the file.
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
            raise ValueError(f"page_size isnt a power of 2, got {page_size}")
        if page_size < MIN_PAGE_SIZE:
            raise ValueError(f"page_size can't be lower than {MIN_PAGE_SIZE}, got {page_size}")
        if page_size >= MAX_PAGE_SIZE:
            raise ValueError(f"page_size can't be bigger (or =) than {MAX_PAGE_SIZE}, got {page_size}")
        self.page_size = page_size

    def from_indexed_dataset(
        self, dataset: Any, indices: Any = None, chunksize: int = 100, shuffle_indices: bool = False
    ) -> None:
        """Write what has ``len()`` and ``[i]``.

        Args:
            dataset: gives a tuple of values for each sample.
            indices: which samples, in which order.
            chunksize: taken for compatibility; the size of chunks follows the size of the samples.
            shuffle_indices: shuffle them, with numpy's global generator.
        """
        if chunksize < 1:
            raise ValueError(f"chunksize must be at least 1, got {chunksize}")
        order = np.arange(len(dataset)) if indices is None else np.array(indices, np.int64)
        if shuffle_indices:
            np.random.shuffle(order)
        self._write(_Samples(dataset, tuple(self.fields.values()), order), len(order))

    def from_webdataset(self, shards: list[str], pipeline: Callable[[Any], Iterable[Any]]) -> None:
        """Write tar shards, read by the webdataset package; ``pipeline`` makes tuples of values from it."""
        self._write(self._from_shards(shards, pipeline), None)

    def _from_shards(self, shards: list[str], pipeline: Callable[[Any], Iterable[Any]]) -> Iterator[Any]:
        try:
            from webdataset import WebDataset
        except ImportError:
            raise MissingExtraError("webdataset", extra="webdataset", needed_by="from_webdataset()") from None
        fields = tuple(self.fields.values())
        for shard in shards:
            for sample in pipeline(WebDataset(shard, shardshuffle=False)):
                yield _values(sample, fields)

    def _write(self, samples: Any, count: int | None) -> None:
        with ProgressBar(f"writing {os.path.basename(self.fname)}") as bar:
            if all(type(field) in _TRANSLATED for field in self.fields.values()):
                fields = {name: _TRANSLATED[type(field)](field) for name, field in self.fields.items()}
                writer_options = {"page_size": self.page_size, "workers": self.num_workers, "progress": bar}
                penstock.write(self.fname, samples, fields=_short_names(fields), **writer_options)
                self.num_samples = len(penstock.open(self.fname))
            else:
                self._write_by_fields(samples, count, bar)

    def _write_by_fields(self, samples: Any, count: int | None, bar: ProgressBar) -> None:
        """Let each field encode its values, as FFCV does."""
        chosen = list(samples) if count is None else samples
        self.num_samples = len(chosen)
        header = np.zeros(1, HeaderType)
        descriptors = self._descriptors()
        metadata = np.zeros(self.num_samples, self.metadata_type)
        with AtomicFile(self.fname) as file:
            start = HeaderType.itemsize + descriptors.nbytes
            allocator = MemoryAllocator(file, start + metadata.nbytes, self.page_size)
            for index in range(self.num_samples):
                self._encode(chosen[index], index, metadata, allocator)
                bar(index + 1, self.num_samples, 0)
            allocator.flush_page()
            end = allocator.end if allocator.allocations else start + metadata.nbytes
            table = np.array(allocator.allocations, ALLOC_TABLE_TYPE)
            header["version"], header["num_fields"] = CURRENT_VERSION, len(self.fields)
            header["page_size"], header["num_samples"] = self.page_size, self.num_samples
            header["alloc_table_ptr"] = end
            file.write([header.tobytes(), descriptors.tobytes(), metadata.tobytes()])
            file.write_at(end, table.tobytes())

    def _encode(self, sample: Any, index: int, metadata: Any, allocator: MemoryAllocator) -> None:
        values = tuple(sample)
        for attempt in range(2):
            try:
                allocator.set_current_sample(index)
                for member, field, value in zip(self.metadata_type.names or (), self.fields.values(), values, strict=True):
                    field.encode(metadata[member][index : index + 1], value, allocator.malloc)
                return
            except MemoryError:
                if attempt:
                    raise
            except Exception as error:
                raise WriteError(f"sample {index}: {type(error).__name__}: {error}", sample=index) from error

    def _descriptors(self) -> Any:
        descriptors = np.zeros(len(self.fields), FieldDescType)
        type_ids = {kind: number for number, kind in TYPE_ID_HANDLER.items() if kind is not None}
        for row, (name, field) in zip(descriptors, self.fields.items(), strict=True):
            row["type_id"] = type_ids.get(type(field), 255)
            encoded = np.frombuffer(name.encode("ascii"), "<u1")[:16]
            row["name"][: len(encoded)] = encoded
            row["arguments"][:] = field.to_binary()[0]
        return descriptors


class _Samples:
    """A user's dataset in the order that is written, its values as penstock takes them."""

    def __init__(self, dataset: Any, fields: tuple[Any, ...], order: Any) -> None:
        self._dataset = dataset
        self._fields = fields
        self._order = order

    def __len__(self) -> int:
        return len(self._order)

    def __getitem__(self, index: int) -> tuple[Any, ...]:
        return _values(self._dataset[int(self._order[index])], self._fields)


def _values(sample: Any, fields: tuple[Any, ...]) -> tuple[Any, ...]:
    values = tuple(sample)
    if len(values) < len(fields):
        raise ValueError(f"the sample has {len(values)} values, and there are {len(fields)} fields")
    return tuple(_value(value, field) for value, field in zip(values, fields, strict=False))


def _value(value: Any, field: Any) -> Any:
    kind = type(field)
    if kind is RGBImageField:
        return checked_pixels(value)
    if kind is TorchTensorField:
        return value.numpy()
    if kind is NDArrayField:
        array = np.ascontiguousarray(value)
        return array if array.dtype == field.dtype else array.reshape(-1).view(field.dtype).reshape(field.shape)
    return value


def _short_names(fields: dict[str, Any]) -> dict[str, Any]:
    short = {name[:16]: field for name, field in fields.items()}
    if len(short) < len(fields):
        raise ValueError(f"names of fields are cut to 16 characters, and then two are the same: {', '.join(fields)}")
    return short


_TRANSLATED: dict[Any, Any] = {
    IntField: lambda field: penstock.Int(),
    FloatField: lambda field: penstock.Float(),
    BytesField: lambda field: penstock.Bytes(),
    JSONField: lambda field: penstock.Json(),
    RGBImageField: lambda field: field.as_penstock(),
    NDArrayField: lambda field: penstock.NDArray(field.dtype, field.shape),
    TorchTensorField: lambda field: penstock.Tensor(field.dtype, field.shape),
}
