"""The native mixing of neighbours against numpy."""

from __future__ import annotations

import numpy as np
import pytest

from headrace._native import mix


@pytest.mark.parametrize("dtype", [np.uint8, np.float16, np.float32])
@pytest.mark.parametrize("shape", [(6, 3, 17, 19), (5, 40), (9,), (1, 30), (0, 7)])
def test_equals_numpy(dtype, shape):
    rng = np.random.default_rng(2)
    values = rng.uniform(0, 256, shape).astype(dtype)
    weights = rng.beta(0.4, 0.4, shape[0]).astype(np.float32)
    out = np.empty_like(values)
    mix(values, weights, out)
    for i, weight in enumerate(weights):
        a, b = values[i].astype(np.float32), values[i - 1].astype(np.float32)
        np.testing.assert_array_equal(out[i], (weight * a + (1 - weight) * b).astype(dtype))


def test_wrong_arguments():
    values, weights = np.zeros((4, 5), np.uint8), np.ones(4, np.float32)
    with pytest.raises(ValueError, match="type and shape"):
        mix(values, weights, np.zeros((5, 4), np.uint8))
    with pytest.raises(ValueError, match="type and shape"):
        mix(values, weights, np.zeros((4, 5), np.float32))
    with pytest.raises(ValueError, match="one entry for each sample"):
        mix(values, weights[:3], np.zeros_like(values))
    with pytest.raises(ValueError, match="weight 2 is not between 0 and 1"):
        mix(values, np.array([0, 1, 2, 0], np.float32), np.zeros_like(values))
    with pytest.raises(ValueError, match="overlaps"):
        mix(values, weights, values)
    with pytest.raises(ValueError, match="uint8, float16 or float32"):
        mix(np.zeros((4, 5)), weights, np.zeros((4, 5)))
    with pytest.raises(TypeError):
        mix(values[:, ::2], weights, np.zeros((4, 3), np.uint8))
