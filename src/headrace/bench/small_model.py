"""A small classifier in numpy: enough to notice a bad order."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from headrace.types import IndexArray

__all__ = ["train_and_test"]

_INPUTS, _HIDDEN, _CLASSES = 16, 32, 10
_BATCH, _EPOCHS, _RATE, _TESTED = 32, 2, 0.2, 2000


def train_and_test(count: int, order: Callable[[int], IndexArray], seed: int) -> float:
    """Train on samples that are sorted by class, in the order of each epoch; gives the share of new ones it knows."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(0, 1, (2 * _CLASSES, _INPUTS))  # two for each class: a line does not part them
    inputs, labels = _points(rng, centres, np.arange(count) * _CLASSES // count)
    model = _Network(rng)
    for epoch in range(_EPOCHS):
        indices = order(epoch)
        for start in range(0, count, _BATCH):
            batch = indices[start : start + _BATCH]
            model.step(inputs[batch], labels[batch])
    tested, expected = _points(rng, centres, rng.integers(0, _CLASSES, _TESTED))
    return float((model.scores(tested).argmax(axis=1) == expected).mean())


def _points(
    rng: np.random.Generator, centres: npt.NDArray[np.float64], labels: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    chosen = labels + _CLASSES * rng.integers(0, 2, len(labels))
    return centres[chosen] + rng.normal(0, 0.7, (len(labels), _INPUTS)), labels


class _Network:
    """One hidden layer, softmax, plain gradient descent."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._first = rng.normal(0, _INPUTS**-0.5, (_INPUTS, _HIDDEN))
        self._second = rng.normal(0, _HIDDEN**-0.5, (_HIDDEN, _CLASSES))

    def scores(self, inputs: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        found: npt.NDArray[np.float64] = np.maximum(inputs @ self._first, 0) @ self._second
        return found

    def step(self, inputs: npt.NDArray[np.float64], labels: npt.NDArray[np.int64]) -> None:
        hidden = np.maximum(inputs @ self._first, 0)
        scores = hidden @ self._second
        errors = np.exp(scores - scores.max(axis=1, keepdims=True))
        errors /= errors.sum(axis=1, keepdims=True)
        errors[np.arange(len(labels)), labels] -= 1
        back = (errors @ self._second.T) * (hidden > 0)
        self._second -= _RATE / len(labels) * (hidden.T @ errors)
        self._first -= _RATE / len(labels) * (inputs.T @ back)
