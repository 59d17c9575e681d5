"""What was written is read back and compared with what was to be written."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace.codecs import image as image_codec
from headrace.errors import HeadraceError, WriteError
from headrace.fields import Image
from headrace.formats.contract import count_workers, fetch_many, values_in_order
from headrace.formats.sets.concatenation import ConcatDataset
from headrace.formats.threads import map_ahead
from headrace.progress import format_count
from headrace.storage import release_mapped

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from headrace.formats.contract import Format
    from headrace.transfer.samples import Selection
    from headrace.types import Dataset, Field, IndexArray

__all__ = ["Comparison"]

_CHUNK = 32
_DECODES = {"image": "image", "text": "text", "json": "json", "ndarray": "npy", "tensor": "npy"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Comparison:
    """Compares every sample of new files with those that were chosen.

    Args:
        selection: what was to be written.
        target: the format of the files.
        path: what errors call them.
        outcome: what an error says about the files that differ.
    """

    selection: Selection
    target: Format
    path: str
    outcome: str

    def __call__(self, paths: Sequence[str], start: int = 0, stop: int | None = None) -> None:
        """Read the files; WriteError at the first sample that differs.

        Args:
            paths: of the files.
            start: the first sample that is in them, in the order of writing.
            stop: the one behind the last; None for all.
        """
        try:
            with self._open(paths) as dataset:
                self._compare(dataset, start, stop)
        except WriteError:
            raise
        except HeadraceError as error:
            raise WriteError(f"{self.path}: what was written cannot be read again ({error}). {self.outcome}") from error

    def _open(self, paths: Sequence[str]) -> Dataset:
        parts = tuple(self._open_one(path) for path in paths)
        return parts[0] if len(parts) == 1 else ConcatDataset(parts, self.path)

    def _open_one(self, path: str) -> Dataset:
        """As the fields say what they are, where the format itself does not."""
        dataset = self.target.open_checked(path)
        kinds = [field.kind for field in self.selection.fields.values()]
        if len(kinds) != 1 or [field.kind for field in dataset.schema.values()] == kinds:
            return dataset
        decode = _DECODES.get(kinds[0])
        if decode not in self.target.decodes:
            return dataset
        dataset.close()
        return self.target.open_checked(path, decode=decode)

    def _compare(self, dataset: Dataset, first: int, stop: int | None) -> None:
        order, fields = self.selection.order[first:stop], self.selection.fields
        if (len(dataset), len(dataset.schema)) != (len(order), len(fields)):
            found = f"{format_count(len(dataset), 'sample')} with {format_count(len(dataset.schema), 'field')}"
            expected = f"{format_count(len(order), 'sample')} with {len(fields)}"
            raise WriteError(f"{self.path} has {found}, and should have {expected}. {self.outcome}")
        places = self._places(dataset, order)
        starts = range(0, len(order), _CHUNK)

        def check(start: int) -> None:
            self._check(dataset, order[start : start + _CHUNK], places[start : start + _CHUNK], first + start)

        for _ in map_ahead(check, starts, threads=count_workers(self.selection.options.workers or None)):
            release_mapped()

    def _places(self, dataset: Dataset, order: IndexArray) -> IndexArray:
        """Where the samples are in the target: in their order, unless it keeps them by name."""
        names, keys = self.selection.names, dataset.keys
        places = np.arange(len(order), dtype=np.int64)
        if names is None or keys is None:
            return places
        written = [names[i] for i in order.tolist()]
        found = {key: place for place, key in enumerate(keys)}
        if len(found) == len(written) and all(name in found for name in written):
            return np.array([found[name] for name in written], np.int64)
        return places

    def _check(self, dataset: Dataset, numbers: IndexArray, places: IndexArray, start: int) -> None:
        kinds, names = list(self.selection.fields.items()), list(dataset.schema)
        expected = fetch_many(self.selection.samples, numbers.tolist())
        found = fetch_many(dataset.sources(), places.tolist())
        for index, (wanted, sample) in enumerate(zip(expected, found, strict=True), start):
            values = values_in_order(sample, names, index)
            for (name, field), old, new in zip(kinds, wanted, values, strict=True):
                if not _is_same(field, old, new, index):
                    raise WriteError(
                        f"{self.path}: sample {index}, field {name!r}: what was written is not what was read from "
                        f"{self.selection.origin.path}. {self.outcome}",
                        sample=index,
                    )


def _is_same(field: Field, old: Any, new: Any, index: int) -> bool:
    if isinstance(field, Image):
        return _is_same_picture(field, old, new, index)
    if isinstance(old, np.ndarray) or isinstance(new, np.ndarray):
        return np.array_equal(np.asarray(old), np.asarray(new), equal_nan=np.asarray(old).dtype.kind in "fc")
    if field.kind == "json":
        return json.dumps(old, sort_keys=True) == json.dumps(new, sort_keys=True)
    is_nan = isinstance(old, float) and math.isnan(old) and isinstance(new, float) and math.isnan(new)
    return is_nan or bool(old == new)


def _is_same_picture(field: Image, old: Any, new: Any, index: int) -> bool:
    """The same file, or the pixels that the field makes of it."""
    if isinstance(old, bytes) and isinstance(new, bytes) and old == new:
        return True
    stored = field.encode(old, index)
    if isinstance(new, bytes) and stored.payload == new:
        return True
    pixels = field.decode(stored.facts, memoryview(stored.payload or b""))
    return np.array_equal(pixels, _pixels(new))


def _pixels(value: Any) -> npt.NDArray[np.uint8]:
    return image_codec.decode_any(value) if isinstance(value, bytes) else np.asarray(value)
