"""Datasets of any format as datasets of Ray Data.

Contract. The dataset travels to Ray's processes by its path and is opened there, once for each task, so all nodes must
see the file. A task reads consecutive samples and gives them as tables of about 64 MiB; no sample is read twice.
Reading changes nothing, so Ray may run a task again.
"""

from __future__ import annotations

import json
import os
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace.formats.open import open_dataset
from headrace.registry import require
from headrace.types import Dataset

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

    from headrace.errors import PathLike

__all__ = ["ray_datasource", "to_ray"]

_BLOCK_BYTES = 64 << 20
_MAX_ROWS = 4096
_TRIED = 8  # samples from which sizes are estimated


def to_ray(
    dataset: Dataset | PathLike | Sequence[PathLike],
    *,
    fields: Sequence[str] | None = None,
    override_num_blocks: int | None = None,
    **options: Any,
) -> Any:
    """A dataset of any format as a ``ray.data.Dataset``: a column for each field, a row for each sample.

    Pictures are arrays of (height, width, 3) bytes, arrays are arrays, text is text, bytes are bytes, and JSON is its
    text. ``map_batches`` and ``iter_batches`` give columns as numpy arrays; pictures of different sizes lie in an array
    of objects. Samples come in their order where Ray keeps it (``DataContext.execution_options.preserve_order``).

    Args:
        dataset: what ``headrace.open`` gives, also a subset or a mixture, or what it takes.
        fields: only these.
        override_num_blocks: into how many tasks the samples are cut; by default Ray decides.
        **options: what ``ray.data.read_datasource`` takes besides, such as ``concurrency`` and ``ray_remote_args``.

    Returns:
        The dataset of Ray; nothing is read yet.

    Raises:
        MissingExtraError: Ray is not installed.
        KeyError: there is no such field.
    """
    data = require("ray.data", "to_ray()")
    return data.read_datasource(
        ray_datasource(dataset, fields=fields), override_num_blocks=override_num_blocks, **options
    )


def ray_datasource(dataset: Dataset | PathLike | Sequence[PathLike], *, fields: Sequence[str] | None = None) -> Any:
    """The ``ray.data.Datasource`` that ``to_ray`` reads from.

    Args:
        dataset: see ``to_ray``.
        fields: see ``to_ray``.
    """
    data, block = require("ray.data", "ray_datasource()"), require("ray.data.block", "ray_datasource()")
    opened = dataset if isinstance(dataset, Dataset) else open_dataset(dataset)
    names = _checked_fields(opened, fields)
    size_bytes = _sample_bytes(opened, names)

    class HeadraceDatasource(data.Datasource):  # type: ignore[misc,name-defined]  # of a package that may be missing
        """Consecutive samples of a dataset as tasks of Ray."""

        def get_name(self) -> str:
            """What Ray calls it."""
            return f"Headrace({os.path.basename(opened.path)})"

        def estimate_inmemory_data_size(self) -> int:
            """Bytes of all samples, from a few of them."""
            return size_bytes * len(opened)

        def get_read_tasks(
            self, parallelism: int, per_task_row_limit: int | None = None, data_context: object = None
        ) -> list[Any]:
            """Ranges of about the same number of samples."""
            count = max(1, min(parallelism, len(opened)))
            cuts = [len(opened) * number // count for number in range(count + 1)]
            return [
                data.ReadTask(
                    partial(_blocks, opened, names, start, stop, size_bytes),
                    block.BlockMetadata(
                        num_rows=stop - start,
                        size_bytes=size_bytes * (stop - start),
                        exec_stats=None,
                        input_files=[opened.path],
                    ),
                    per_task_row_limit=per_task_row_limit,
                )
                for start, stop in pairwise(cuts)
            ]

    return HeadraceDatasource()


def _checked_fields(dataset: Dataset, fields: Sequence[str] | None) -> list[str]:
    if fields is None:
        return list(dataset.schema)
    if isinstance(fields, str) or not fields:
        raise ValueError(f"fields must be a list of names, got {fields!r}")
    for name in fields:
        if name not in dataset.schema:
            raise KeyError(f"no field {name!r} in {dataset.path}; the fields are {', '.join(dataset.schema)}")
    return list(fields)


def _sample_bytes(dataset: Dataset, names: list[str]) -> int:
    """Bytes that a sample has in memory, about."""
    tried = np.unique(np.linspace(0, max(0, len(dataset) - 1), min(_TRIED, len(dataset)), dtype=np.int64))
    if not len(tried):
        return 1
    columns = [_column(dataset, name, tried) for name in names]
    return max(1, sum(map(_size_of, columns)) // len(tried))


def _size_of(column: npt.NDArray[Any]) -> int:
    if column.dtype != object:
        return column.nbytes
    return sum(value.nbytes if isinstance(value, np.ndarray) else len(value) for value in column)


def _blocks(dataset: Dataset, names: list[str], start: int, stop: int, size_bytes: int) -> Iterator[Any]:
    """Samples as tables, in the process of a task."""
    from ray.data.block import BlockAccessor

    count = max(1, min(_MAX_ROWS, _BLOCK_BYTES // size_bytes))
    for first in range(start, stop, count):
        indices = np.arange(first, min(first + count, stop), dtype=np.int64)
        yield BlockAccessor.batch_to_block({name: _column(dataset, name, indices) for name in names})


def _column(dataset: Dataset, name: str, indices: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
    """The values of a field as Ray takes them: one array, or an array of objects."""
    values = dataset.read_values(indices, name)
    if isinstance(values, np.ndarray):
        return values
    if dataset.schema[name].kind == "json":
        values = [json.dumps(value, ensure_ascii=False) for value in values]
    elif all(isinstance(value, np.ndarray) for value in values) and len({value.shape for value in values}) == 1:
        return np.stack(values)
    found = np.empty(len(values), object)
    found[:] = values
    return found
