"""Samples of every kind of field, and tables made with pyarrow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from headrace.fields import Bytes, Float, Image, Int, Json, NDArray, Tensor, Text
from headrace.formats.open import find_format

GOLDEN = Path(__file__).parents[3] / "golden" / "formats"
FILES = ("groups.parquet", "file.arrow", "feather.feather", "hf_saved")
ENDINGS = ("parquet", "arrow", "feather")

FIELDS = {
    "image": Image(),
    "raw": Image(mode="raw"),
    "label": Int(),
    "score": Float(),
    "text": Text(),
    "data": Bytes(),
    "meta": Json(),
    "box": NDArray("float32", (2, 3)),
    "waves": NDArray("complex64", (2,)),
    "flags": NDArray("bool", (3,)),
    "other_order": NDArray(">i4", (2,)),
    "half": NDArray("float16", (1,)),
    "tensor": Tensor("uint8", (4, 5, 3)),
}


def photo(number: int) -> bytes:
    return (GOLDEN / "truth" / f"{number:06d}.jpg").read_bytes()


def samples(count: int) -> list[tuple[Any, ...]]:
    random = np.random.default_rng(3)
    return [
        (
            photo(i % 20),
            random.integers(0, 255, (4, 6, 3), dtype=np.uint8),
            i % 3 - 1,
            i / 7,
            f"é{i}" * (i % 4),
            bytes(i % 256 for i in range(i)),
            {"a": [i, None], "é": "ü"},
            random.random((2, 3), dtype=np.float32),
            np.array([1j * i, 2], np.complex64),
            np.array([i % 2, 0, 1], bool),
            np.array([i, -i], ">i4"),
            np.array([i], np.float16),
            random.integers(0, 255, (4, 5, 3), dtype=np.uint8),
        )
        for i in range(count)
    ]


def write(path: Path, rows: list[tuple[Any, ...]], **options: Any) -> Path:
    """Write samples of all kinds with names."""
    fields = options.pop("fields", FIELDS)
    names = options.pop("names", True)
    with find_format(path, must_exist=False).create_checked(path, fields, **options) as writer:
        for i, row in enumerate(rows):
            writer.append(row, name=f"dir/{i:03d}.jpg" if names else None)
    return path


def save(path: Path, table: pa.Table, *, rows: int = 4, **options: Any) -> Path:
    """Write a table with pyarrow, a few rows to a part."""
    if path.suffix == ".parquet":
        pq.write_table(table, path, row_group_size=rows, **options)
        return path
    kind = pa.ipc.new_stream if path.stem.startswith("stream") else pa.ipc.new_file
    with pa.OSFile(str(path), "wb") as file, kind(file, table.schema, **options) as writer:
        for batch in table.to_batches(max_chunksize=rows):
            writer.write_batch(batch)
    return path
