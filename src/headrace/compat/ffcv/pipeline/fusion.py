"""Decoder and transforms on pictures as one native call for a batch."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from headrace.compat.ffcv.images import load_images, load_options
from headrace.compat.ffcv.storage import column_of, locate_images
from headrace.compat.ffcv.transforms.color_jitter import RandomBrightness, RandomContrast, RandomSaturation
from headrace.compat.ffcv.transforms.cutout import Cutout
from headrace.compat.ffcv.transforms.flip import RandomHorizontalFlip
from headrace.compat.ffcv.transforms.normalize import NormalizeImage
from headrace.compat.ffcv.transforms.ops import ToTensor, ToTorchImage
from headrace.compat.ffcv.transforms.translate import RandomTranslate

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace._native import LoadOptions
    from headrace.loader.slots import SlotPool
    from headrace.ops import Draws
    from headrace.types import Source

__all__ = ["FusedImages"]

_STEPS = (RandomHorizontalFlip, RandomBrightness, RandomContrast, RandomSaturation, Cutout, RandomTranslate)
_FLOATS = (np.dtype(np.float16), np.dtype(np.float32))


@dataclass(frozen=True)
class FusedImages:
    """A decoder, steps on pixels, perhaps a normalization, perhaps tensors."""

    decoder: Any
    metadata: Any
    flip: tuple[Any, int] | None = None
    steps: tuple[tuple[Any, int], ...] = ()
    normalize: NormalizeImage | None = None
    is_tensor: bool = False
    image: ToTorchImage | None = None

    def extended(self, operation: Any, key: int) -> FusedImages | None:
        """The run with one operation more, or None when it does not fit; subclasses of ours are a user's own."""
        kind = type(operation)
        if self.image is not None:
            return None
        if self.is_tensor:
            return replace(self, image=operation) if kind is ToTorchImage else None
        if kind is ToTensor:
            return replace(self, is_tensor=True)
        if self.normalize is not None:
            return None
        if kind is NormalizeImage and operation.original_dtype in _FLOATS:
            return replace(self, normalize=operation)
        if kind is RandomHorizontalFlip and self.flip is None and not self.steps:
            return replace(self, flip=(operation.as_op(), key))
        return replace(self, steps=(*self.steps, (operation.as_op(), key))) if kind in _STEPS else None

    def load(
        self,
        indices: Any,
        shape: Any,
        draws: Callable[[int], Draws],
        native: Any,
        slots: SlotPool,
        state: Any,
        source: Source | None,
    ) -> Any:
        """Make the batch; ``shape`` is what the decoder has declared."""
        spans = locate_images(self.metadata, indices, state, source, column_of(self.decoder, self.metadata))
        crops = self.decoder.choose_crops(spans, draws(-1))
        height, width = int(shape[0]), int(shape[1])
        out = slots.take((len(indices), height, width, 3), self._dtype)
        options: dict[str, Any] = {}
        if self.flip is not None:
            options["flips"] = self.flip[0].flips(draws(self.flip[1]))
        if self.steps:
            options["steps"] = [(op.kind, op.step((height, width), draws(key))) for op, key in self.steps]
        if self.normalize is not None:
            options["options"] = self._table_options
        load_images(native, spans, crops, out, indices, **options)
        return self._finished(out)

    @cached_property
    def _table_options(self) -> LoadOptions:
        assert self.normalize is not None
        return load_options(self.normalize.float_table)

    @property
    def _dtype(self) -> Any:
        return np.dtype(np.uint8) if self.normalize is None else self.normalize.original_dtype

    def _finished(self, out: Any) -> Any:
        is_half = out.dtype == np.float16
        if not self.is_tensor:
            return out.view(np.int16) if is_half else out
        tensor = torch.from_numpy(out)
        if self.image is None:
            return tensor.view(torch.int16) if is_half else tensor
        if is_half and not self.image.convert_int16:
            tensor = tensor.view(torch.int16)
        tensor = tensor.permute(0, 3, 1, 2)
        return tensor if self.image.channels_last else tensor.contiguous()
