"""Batches of JAX on a GPU; skipped where JAX finds none."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.helpers import picture

import headrace as hr
from headrace import ops

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.gpu, pytest.mark.frameworks]
PIPELINE = [ops.RandomResizedCrop(64), ops.RandomHorizontalFlip(), ops.Normalize([120] * 3, [60] * 3, dtype="float16")]


@pytest.fixture(scope="module")
def jax() -> Any:
    module = pytest.importorskip("jax")
    if module.devices()[0].platform != "gpu":
        pytest.skip("JAX finds no GPU")
    return module


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("jax") / "x.beton"
    samples = [(picture(i, 90 + i % 7, 80), i, bytes([i]) * (i % 5)) for i in range(150)]
    hr.write(path, samples, fields={"image": hr.Image(mode="jpg"), "label": hr.Int(), "blob": hr.Bytes()})
    return path


@pytest.mark.parametrize("device", [None, "gpu", "cuda:0"])
@pytest.mark.parametrize("jpeg", ["window", "auto"])
@pytest.mark.parametrize("layout", ["NHWC", "NCHW", "channels_last"])
def test_batches_on_the_gpu_are_those_of_the_cpu(jax: Any, path: Path, device: Any, jpeg: Any, layout: Any) -> None:
    pipelines = {"image": [*PIPELINE, ops.ToLayout(layout)]}
    options: dict[str, Any] = {"order": "random", "pipelines": pipelines, "collate": "pad", "seed": 3}
    loader = hr.Loader(path, 16, framework="jax", device=device, jpeg=jpeg, **options)
    found, expected = list(loader), list(hr.Loader(path, 16, jpeg="window", **options))
    assert len(found) == len(expected) == 9
    for a, b in zip(found, expected, strict=True):
        assert {d.platform for d in a.image.devices()} == {"gpu"}
        assert a.label.committed == (device is not None)
        np.testing.assert_array_equal(np.asarray(a.image), b.image)
        np.testing.assert_array_equal(np.asarray(a.label), b.label)
        np.testing.assert_array_equal(np.asarray(a.blob.values), b.blob.values)


@pytest.mark.parametrize("jpeg", ["window", "auto"])
def test_batches_are_not_overwritten_while_the_gpu_is_busy(jax: Any, path: Path, jpeg: Any) -> None:
    """JAX lets go of memory from outside while its work is queued; the batches of a loop must be right all the same."""
    work = jax.jit(lambda big, images: (jax.numpy.tanh(big @ big), images.astype("float32").sum()))
    loader = hr.Loader(path, 16, framework="jax", jpeg=jpeg, pipelines={"image": PIPELINE}, batches_ahead=1)
    expected = [batch.image.astype(np.float32).sum() for batch in hr.Loader(path, 16, pipelines={"image": PIPELINE})]
    big, sums = jax.numpy.ones((4096, 4096)), []
    for batch in loader:
        for _ in range(20):
            big, total = work(big, batch.image)
        sums.append(total)
        del batch
    np.testing.assert_allclose(np.array([float(total) for total in sums]), expected, rtol=1e-4)


def test_gpu_memory_does_not_grow(jax: Any, path: Path) -> None:
    loader = hr.Loader(path, 16, framework="jax", device="gpu", order="random", pipelines={"image": PIPELINE})

    def used() -> int:
        for _ in loader:
            pass
        gc.collect()
        return int(jax.devices("gpu")[0].memory_stats()["bytes_in_use"])

    used()
    before = used()
    assert max(used() for _ in range(4)) <= before + (1 << 20)
