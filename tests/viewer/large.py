"""A .beton of very many tiny pictures, made in seconds: its records are written by numpy, and its pixels are a hole.

Every picture is 8 x 8 black pixels of its own, in a part of the file that takes no space on the disk. What a record
says is true, so everything that reads records, classes and sizes meets what it would in a real file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

import headrace as hr
from headrace.formats.beton.layout import HEADER, align

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["write_large"]

_SIDE = 8
_BYTES = _SIDE * _SIDE * 3
_BLOCK = 1 << 20


def write_large(path: Path, count: int, *, classes: int = 1000) -> None:
    """Write ``count`` samples: a picture, and a label below ``classes`` that is the sample's number modulo it."""
    template = path.with_suffix(".template.beton")
    picture = np.zeros((_SIDE, _SIDE, 3), np.uint8)
    fields = {"image": hr.Image(mode="raw"), "label": hr.Int()}
    hr.write(template, [(picture, 0)], fields=fields, class_names={"label": [f"class {i}" for i in range(classes)]})
    with hr.open(template) as small:
        record, page = small.layout.record, small.layout.page_size
        head = template.read_bytes()[: small.layout.metadata_start]
    template.unlink()
    on_page = page // _BYTES
    start = align(len(head) + count * record.itemsize, page)
    table_at = start + align(count, on_page) // on_page * page
    version, num_fields, _, _, _ = HEADER.unpack(head[: HEADER.size])
    with path.open("wb") as file:
        file.write(HEADER.pack(version, num_fields, page, count, table_at))
        file.write(head[HEADER.size :])
        for first in range(0, count, _BLOCK):
            numbers = np.arange(first, min(first + _BLOCK, count), dtype=np.uint64)
            file.write(_records(record, numbers, start, page, classes).tobytes())
        file.seek(table_at)
        for first in range(0, count, _BLOCK):
            numbers = np.arange(first, min(first + _BLOCK, count), dtype=np.uint64)
            rows = np.stack(
                [numbers, _pointers(numbers, start, page), np.full(len(numbers), _BYTES, np.uint64)], axis=1
            )
            file.write(rows.tobytes())


def _pointers(numbers: np.ndarray, start: int, page: int) -> np.ndarray:
    on_page = np.uint64(page // _BYTES)
    return np.uint64(start) + numbers // on_page * np.uint64(page) + numbers % on_page * np.uint64(_BYTES)


def _records(dtype: np.dtype, numbers: np.ndarray, start: int, page: int, classes: int) -> np.ndarray:
    records = np.zeros(len(numbers), dtype)
    image, label = dtype.names
    records[image]["mode"] = 1
    records[image]["width"] = records[image]["height"] = _SIDE
    records[image]["data_ptr"] = _pointers(numbers, start, page)
    records[label] = (numbers % np.uint64(classes)).astype(np.int64)
    return records
