"""Datasets in buckets, and what a loader makes of them."""

from __future__ import annotations

import contextlib
import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from tests.helpers import picture

import headrace as hr
from headrace import ops
from headrace.codecs import jpeg
from headrace.formats.open import FORMATS

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from tests.remote.conftest import Bucket

__all__ = ["NAMES", "Stored", "crops", "digests", "store_arrays", "store_pictures"]

NAMES = {
    "arrow": "x.arrow",
    "barecat": "x.barecat",
    "beton": "x.beton",
    "ffr": "x.ffr",
    "msgpack": "x.msgpack",
    "npy": "x.npy",
    "npz": "x.npz",
    "parquet": "x.parquet",
    "recordio": "x.rec",
    "tar": "x.tar",
    "tfrecord": "x.tfrecord",
    "zip": "x.zip",
}
"""Every format that is read from a store, and a name for a file of it."""

_SIZE = 40_000


@dataclass(frozen=True, kw_only=True)
class Stored:
    """One dataset, twice: a local file, and the same bytes as an object.

    Args:
        local: the file.
        bucket: of the object.
        options: how both are opened.
    """

    local: Path
    bucket: Bucket
    options: dict[str, Any]

    @property
    def url(self) -> str:
        """Of the object."""
        return self.bucket.url(self.local.name)

    @property
    def object_path(self) -> Path:
        """The object as the server has it."""
        return self.bucket.folder / self.local.name

    @property
    def size_bytes(self) -> int:
        """Of the object."""
        return self.local.stat().st_size

    def open_local(self) -> Any:
        """The file."""
        return hr.open(self.local, **self.options)

    def open(self, *, store: dict[str, Any] | None = None, **options: Any) -> Any:
        """The object; ``store`` has further options of the store."""
        reached = {**self.bucket.storage_options, **(store or {})}
        return hr.open(self.url, storage_options=reached, **self.options, **options)


def store_arrays(bucket: Bucket, folder: Path, format: str = "beton", *, samples: int = 300, **options: Any) -> Stored:
    """Random bytes, as many in each sample, and a number where the format has a place for one."""
    rng = np.random.default_rng(7)
    rows = [(rng.integers(0, 256, _SIZE, dtype=np.uint8), i) for i in range(samples)]
    both = {"data": hr.NDArray("uint8", (_SIZE,)), "label": hr.Int()}
    return _store(bucket, folder, format, rows, [both, {"data": both["data"]}, {"data": hr.Bytes()}], **options)


def store_pictures(
    bucket: Bucket, folder: Path, format: str = "beton", *, samples: int = 200, **options: Any
) -> Stored:
    """JPEGs with labels and a tile index."""
    files = [jpeg.encode(picture(i, 200 + i % 7, 240), quality=90) for i in range(16)]
    rows = [(files[i % 16], i) for i in range(samples)]
    fields = {"image": hr.Image(), "label": hr.Int()}
    return _store(bucket, folder, format, rows, [fields, {"image": hr.Image()}], **options)


def _store(
    bucket: Bucket, folder: Path, format: str, rows: list[Any], choices: list[dict[str, Any]], **options: Any
) -> Stored:
    path = folder / NAMES[format]
    for fields in choices:
        try:
            hr.write(path, [_values(row, fields) for row in rows], fields=fields, force=True, **options)
        except ValueError:
            if fields is choices[-1]:
                raise
        else:
            break
    if FORMATS.load(format).index is not None:
        with contextlib.suppress(ValueError):  # it has one already, or nothing to index
            hr.index(path)
    for file in path.parent.glob(f"{path.stem}*"):
        (bucket.folder / file.name).write_bytes(file.read_bytes())
    is_bare = format == "ffr" and "image" in fields  # which says nothing of what its bytes are
    return Stored(local=path, bucket=bucket, options={"decode": "image"} if is_bare else {})


def _values(row: Any, fields: dict[str, Any]) -> tuple[Any, ...]:
    values = tuple(row[: len(fields)])
    is_bytes = fields.get("data") is not None and fields["data"].kind == "bytes"
    return (values[0].tobytes(), *values[1:]) if is_bytes else values


def digests(batches: Iterable[Any]) -> list[str]:
    """What is in batches, bit for bit."""
    found = []
    for batch in batches:
        digest = hashlib.sha256()
        for name, values in zip(batch.keys(), batch, strict=True):
            digest.update(name.encode())
            for value in [values] if isinstance(values, np.ndarray) else values:
                digest.update(value if isinstance(value, bytes) else np.ascontiguousarray(value).tobytes())
        found.append(digest.hexdigest())
    return found


def crops(dataset: Any) -> dict[str, Any]:
    """A pipeline for the pictures of a dataset."""
    name = next(name for name, field in dataset.schema.items() if field.kind == "image")
    return {name: [ops.RandomResizedCrop(64), ops.RandomHorizontalFlip()]}
