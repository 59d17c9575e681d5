"""A batch to look at, as the model gets it: its pictures, and what else belongs to each sample."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from headrace.codecs.small_picture import SmallPicture, looks_like_picture, small_array
from headrace.errors import ImageError
from headrace.formats.gallery import Gallery, Tile
from headrace.formats.sample_tiles import brief_value
from headrace.progress import format_count
from headrace.types import Padded, Ragged

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from headrace.types import Batch

__all__ = ["batch_gallery"]


def batch_gallery(
    batch: Batch, *, title: str, facts: str, class_names: Mapping[str, Sequence[str]], count: int, side: int
) -> Gallery:
    """The first samples of a batch.

    Args:
        batch: of any framework.
        title: which batch it is.
        facts: what more there is to say about it.
        class_names: names of the classes by output.
        count: how many samples.
        side: of a picture, in pixels.
    """
    outputs = {name: _as_numpy(batch[name]) for name in batch.keys()}  # noqa: SIM118 - a batch iterates over values
    length = max(map(_length, outputs.values()), default=0)
    shown = next((name for name, value in outputs.items() if _has_pictures(value)), None)
    pictures = _pictures(outputs[shown], side) if shown is not None else _none()
    tiles = []
    for number, picture in zip(range(min(count, length)), pictures, strict=False):
        others = {name: value for name, value in outputs.items() if name != shown}
        captions = [str(number), *(f"{name}: {_brief(v, number, class_names.get(name))}" for name, v in others.items())]
        tiles.append(
            Tile(captions=captions, problem=str(picture))
            if isinstance(picture, Exception)
            else Tile(captions=captions, picture=picture)
        )
    fields = [(name, _words(batch[name], outputs[name], is_shown=name == shown)) for name in outputs]
    left_out = length - len(tiles)
    note = f"{format_count(left_out, 'sample')} more; count= says how many are shown" if left_out else ""
    return Gallery(title=title, facts=facts, fields=fields, tiles=tiles, note=note, side=side)


def _as_numpy(value: Any) -> Any:
    """An array of numpy where it is one of any framework, on any device; others as they are."""
    if isinstance(value, Padded | Ragged):
        return type(value)(*map(_as_numpy, value))
    if hasattr(value, "detach") and hasattr(value, "cpu"):  # torch
        value = value.detach().cpu()
        return (value.float() if "bfloat16" in str(value.dtype) else value).numpy()
    if hasattr(value, "get") and hasattr(value, "__cuda_array_interface__"):  # CuPy
        return value.get()
    if hasattr(value, "__array__"):
        array = np.asarray(value)
        return array if array.dtype.kind in "biufcSU" else array.astype(np.float32)  # JAX has bfloat16
    return value


def _length(value: Any) -> int:
    if isinstance(value, Ragged):
        return len(value.offsets) - 1
    return len(value.values if isinstance(value, Padded) else value)


def _has_pictures(value: Any) -> bool:
    if isinstance(value, np.ndarray):
        return looks_like_picture(value.shape[1:])
    is_row = isinstance(value, list) and len(value) > 0
    return is_row and isinstance(value[0], np.ndarray) and looks_like_picture(value[0].shape)


def _pictures(values: Any, side: int) -> Iterator[SmallPicture | Exception]:
    """Numbers that are no bytes are stretched by the range of the whole batch, so that pictures can be compared."""
    low, high = _range(values) if isinstance(values, np.ndarray) else (0.0, 0.0)
    for value in values:
        is_stretched = isinstance(values, np.ndarray) and value.dtype.kind == "f" and (low < 0 or high > 1)
        try:
            yield small_array((value.astype(np.float64) - low) / (high - low) if is_stretched else value, (side, side))
        except ImageError as error:
            yield error


def _none() -> Iterator[None]:
    while True:
        yield None


def _range(array: npt.NDArray[Any]) -> tuple[float, float]:
    """The least and the most that is finite."""
    known = array[np.isfinite(array)] if array.dtype.kind == "f" else array
    return (float(known.min()), float(known.max())) if known.size else (0.0, 0.0)


def _brief(value: Any, number: int, classes: Sequence[str] | None) -> str:
    if isinstance(value, Ragged):
        start, end = int(value.offsets[number]), int(value.offsets[number + 1])
        return brief_value(value.values[start:end], classes)
    one = (value.values if isinstance(value, Padded) else value)[number]
    return brief_value(one.item() if isinstance(one, np.generic) else one, classes)


def _words(value: Any, array: Any, *, is_shown: bool) -> str:
    """What an output is: whose array, its numbers, its shape, its range."""
    kind = type(value)
    package = kind.__module__.partition(".")[0].replace("jaxlib", "jax")
    if isinstance(array, Padded):
        return f"padded: {_array_words(array.values)}"
    if isinstance(array, Ragged):
        return f"one after the other: {_array_words(array.values)}"
    if not isinstance(array, np.ndarray):
        return f"{kind.__name__} of {len(array)}"
    device = f" on {value.device}" if package == "torch" else ""
    low, high = _range(array) if array.dtype.kind in "iuf" else (0.0, 0.0)
    span = f", {low:.4g} to {high:.4g}" if array.size and array.dtype.kind in "iuf" else ""
    how = "; drawn from the least to the most" if is_shown and array.dtype.kind == "f" and (low < 0 or high > 1) else ""
    return f"{package}{device}, {_array_words(array)}{span}{how}"


def _array_words(array: npt.NDArray[Any]) -> str:
    return f"{array.dtype}, {' x '.join(map(str, array.shape))}"
