"""Mixup: every sample is blended with the one before it in the batch.

Pictures and labels agree because both draw from a generator seeded with the last sample of the batch.
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch

from headrace.compat.ffcv.pipeline.allocation_query import AllocationQuery
from headrace.compat.ffcv.pipeline.operation import Operation
from headrace.compat.passed_on import pass_on

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.compat.ffcv.pipeline.state import State

__all__ = ["ImageMixup", "LabelMixup", "MixupToOneHot"]
pass_on(globals(), "AllocationQuery Callable Compiler F Operation Optional State Tuple ch np objmode replace")


def mixup_shares(alpha: float, same_lambda: bool, indices: Any) -> npt.NDArray[np.float64]:
    """What each sample keeps of itself: the numbers that FFCV draws for this batch."""
    state: Any = np.random.RandomState(int(indices[-1]) & 0xFFFFFFFF).get_state(legacy=True)
    key = state[1]
    generator = random.Random()
    generator.setstate((3, (*(int(word) for word in np.asarray(key)), 624), None))
    if same_lambda:
        return np.full(len(indices), generator.betavariate(alpha, alpha))
    return np.array([generator.betavariate(alpha, alpha) for _ in range(len(indices))])


class ImageMixup(Operation):
    """Blend each picture with the one before it in the batch."""

    def __init__(self, alpha: float, same_lambda: bool) -> None:
        super().__init__()
        self.alpha = alpha
        self.same_lambda = same_lambda

    def generate_code(self) -> Callable[..., Any]:
        """A function of (pictures, memory, indices)."""

        def mixer(images: Any, dst: Any, indices: Any) -> Any:
            shares = mixup_shares(self.alpha, self.same_lambda, indices)
            out = np.empty_like(images) if dst is None else dst[: len(images)]
            for i, share in enumerate(shares):
                out[i] = (share * images[i] + (1 - share) * images[i - 1]).astype(images.dtype)
            return out

        mixer.with_indices = True  # type: ignore[attr-defined]
        mixer.is_native = True  # type: ignore[attr-defined]
        return mixer

    def declare_state_and_memory(self, previous_state: State) -> tuple[State, AllocationQuery]:
        """Pictures in, pictures out."""
        return previous_state, AllocationQuery(previous_state.shape, previous_state.dtype)


class LabelMixup(Operation):
    """A label becomes (label, label before it in the batch, share), as float32; arguments as ImageMixup."""

    def __init__(self, alpha: float, same_lambda: bool) -> None:
        super().__init__()
        self.alpha = alpha
        self.same_lambda = same_lambda

    def generate_code(self) -> Callable[..., Any]:
        """A function of (labels, memory, indices)."""

        def mixer(labels: Any, dst: Any, indices: Any) -> Any:
            first = np.asarray(labels)[:, 0]
            out = np.empty((len(first), 3), np.float32) if dst is None else dst[: len(first)]
            out[:, 0], out[:, 1] = first, np.roll(first, 1)
            out[:, 2] = mixup_shares(self.alpha, self.same_lambda, indices)
            return out

        mixer.with_indices = True  # type: ignore[attr-defined]
        mixer.is_native = True  # type: ignore[attr-defined]
        return mixer

    def declare_state_and_memory(self, previous_state: State) -> tuple[State, AllocationQuery]:
        """Three numbers."""
        dtype = np.dtype(np.float32)
        return replace(previous_state, shape=(3,), dtype=dtype), AllocationQuery((3,), dtype)


class MixupToOneHot(Operation):
    """What LabelMixup gives as rows of shares; where both labels agree their shares add up to one."""

    def __init__(self, num_classes: int) -> None:
        super().__init__()
        self.num_classes = num_classes

    def generate_code(self) -> Callable[..., Any]:
        """A function of (tensor, memory)."""

        def one_hotter(mixed: Any, dst: Any) -> Any:
            out = torch.zeros((len(mixed), self.num_classes), dtype=mixed.dtype, device=mixed.device)
            out.scatter_add_(1, mixed[:, :1].long(), mixed[:, 2:])
            out.scatter_add_(1, mixed[:, 1:2].long(), 1 - mixed[:, 2:])
            return out

        one_hotter.makes_memory = True  # type: ignore[attr-defined]
        return one_hotter

    def declare_state_and_memory(self, previous_state: State) -> tuple[State, AllocationQuery]:
        """A row for each sample."""
        if previous_state.jit_mode:
            raise AssertionError("MixupToOneHot needs tensors; put ToTensor() before it")
        shape = (self.num_classes,)
        query = AllocationQuery(shape, dtype=previous_state.dtype, device=previous_state.device)
        return replace(previous_state, shape=shape), query
