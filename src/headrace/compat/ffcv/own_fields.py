"""Files with fields of a user's own, which encode themselves.

Contract. The calling process fetches nothing; workers (forked processes, or the caller itself when there is one) fetch
samples, let the fields encode them into pages of their own, and write these. Metadata are memory that all share; the
allocations come back with each block. A failure is raised by the caller, and nothing is left under the file's name.
"""

from __future__ import annotations

import mmap
from collections import deque
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace.compat.ffcv.memory_allocator import MemoryAllocator
from headrace.compat.ffcv.types import (
    ALLOC_TABLE_TYPE,
    CURRENT_VERSION,
    TYPE_ID_HANDLER,
    FieldDescType,
    HeaderType,
    get_metadata_type,
)
from headrace.errors import WriteError
from headrace.formats.encode_pool import Work, open_pool
from headrace.formats.write import Block
from headrace.storage import AtomicFile

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from headrace.types import Progress

__all__ = ["ADVICE", "descriptors_of", "header_of", "write_own_fields"]

ADVICE = "Try a smaller num_workers."
_JOB_SAMPLES = 64


def write_own_fields(
    path: str, fields: Mapping[str, Any], samples: Any, count: int, page_size: int, workers: int, progress: Progress
) -> None:
    """Write ``count`` samples, from something indexable or an iterator, as FFCV lays them out."""
    descriptors = descriptors_of(fields)
    record = get_metadata_type(list(fields.values()))
    metadata = _shared(count, record)
    start = HeaderType.itemsize + descriptors.nbytes
    with AtomicFile(path) as file:
        allocator = MemoryAllocator(path, start + metadata.nbytes, page_size)
        encoder = _Encoder(tuple(fields.values()), metadata, allocator, file)
        table = np.array(list(_run(encoder, samples, count, workers, progress)), ALLOC_TABLE_TYPE)
        header = header_of(fields, page_size, count)
        header["alloc_table_ptr"] = end = allocator.end if len(table) else start + metadata.nbytes
        file.write([header.tobytes(), descriptors.tobytes(), metadata.tobytes()])
        file.position = end
        file.write([table.tobytes()])
        file.truncate()  # no table, and the last page not full: the file ends with the page


def header_of(fields: Mapping[str, Any], page_size: int, count: int) -> Any:
    """The header of a file, in an array of one; where its allocation table stands is still to be filled in."""
    header = np.zeros(1, HeaderType)
    header["version"], header["num_fields"] = CURRENT_VERSION, len(fields)
    header["page_size"], header["num_samples"] = page_size, count
    return header


def descriptors_of(fields: Mapping[str, Any]) -> Any:
    """What a file says about its fields; their names have at most 16 characters."""
    descriptors = np.zeros(len(fields), FieldDescType)
    type_ids = {kind: number for number, kind in TYPE_ID_HANDLER.items() if kind is not None}
    for row, (name, field) in zip(descriptors, fields.items(), strict=True):
        row["type_id"] = type_ids.get(type(field), 255)
        encoded = np.frombuffer(name.encode("ascii"), "<u1")
        row["name"][: len(encoded)] = encoded
        row["arguments"][:] = field.to_binary()[0]
    return descriptors


def _shared(count: int, record: np.dtype[Any]) -> Any:
    memory = mmap.mmap(-1, max(1, count * record.itemsize))
    return np.frombuffer(memory, record, count)


def _run(
    encoder: _Encoder, samples: Any, count: int, workers: int, progress: Progress
) -> Iterator[tuple[int, int, int]]:
    is_indexed = hasattr(samples, "__getitem__")
    work: Any = Work(encoder, samples if is_indexed else None)
    kind = "process" if workers > 1 else "thread"
    drawn = None if is_indexed else iter(samples)
    under_way: deque[tuple[Block, Any]] = deque()
    first = 0
    with open_pool(workers, kind, work, advice=ADVICE) as submit:
        while under_way or first < count:
            while first < count and len(under_way) < 2 * workers:
                numbers = list(range(first, min(first + _JOB_SAMPLES, count)))
                values = None if drawn is None else list(islice(drawn, len(numbers)))
                block = Block(first, values, numbers[: len(numbers) if values is None else len(values)])
                under_way.append((block, submit(block)))
                first += len(numbers)
            block, pending = under_way.popleft()
            yield from pending.result()
            progress(block.first_index + len(block.sources), count, 0)


class _Encoder:
    """Lets the fields encode samples; in each process it gets an allocator of its own."""

    def __init__(self, fields: tuple[Any, ...], metadata: Any, allocator: MemoryAllocator, file: AtomicFile) -> None:
        self._fields = fields
        self._metadata = metadata
        self._shared = allocator
        self._file = file
        self._own: MemoryAllocator | None = None

    def __call__(self, samples: Iterable[Any], *, first_index: int) -> list[tuple[int, int, int]]:
        """Encode samples that stand from ``first_index`` on; gives their allocations."""
        if self._own is None:
            self._own = self._shared.for_worker(self._file)
        for index, sample in enumerate(samples, first_index):
            self._encode(sample, index, self._own)
        self._own.write_used()
        allocations, self._own.allocations = self._own.allocations, []
        return allocations

    def _encode(self, sample: Any, index: int, allocator: MemoryAllocator) -> None:
        try:
            try:
                self._encode_once(sample, index, allocator)
            except MemoryError:  # the sample begins anew on a page of its own
                self._encode_once(sample, index, allocator)
        except MemoryError as error:
            problem = f"sample {index} does not fit into a page of {allocator.page_size} bytes"
            raise WriteError(f"{problem}; give DatasetWriter a larger page_size", sample=index) from error
        except Exception as error:
            raise WriteError(f"sample {index}: {type(error).__name__}: {error}", sample=index) from error

    def _encode_once(self, sample: Any, index: int, allocator: MemoryAllocator) -> None:
        allocator.set_current_sample(index)
        for member, field, value in zip(self._metadata.dtype.names, self._fields, sample, strict=True):
            field.encode(self._metadata[member][index : index + 1], value, allocator.malloc)
