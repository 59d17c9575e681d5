"""Batches of CuPy; skipped where CuPy finds no GPU. tests/unit has more, with a CuPy that needs none."""

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

pytestmark = pytest.mark.gpu
PIPELINE = [ops.RandomResizedCrop(64), ops.RandomHorizontalFlip(), ops.Normalize([120] * 3, [60] * 3, dtype="float16")]


@pytest.fixture(scope="module")
def cupy() -> Any:
    module = pytest.importorskip("cupy")
    if not module.cuda.is_available():
        pytest.skip("CuPy finds no GPU")
    return module


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("cupy") / "x.beton"
    samples = [(picture(i, 90 + i % 7, 80), i, bytes([i]) * (i % 5)) for i in range(150)]
    hr.write(path, samples, fields={"image": hr.Image(mode="jpg"), "label": hr.Int(), "blob": hr.Bytes()})
    return path


@pytest.mark.parametrize("jpeg", ["window", "auto"])
@pytest.mark.parametrize("layout", ["NHWC", "NCHW", "channels_last"])
def test_batches_on_the_gpu_are_those_of_the_cpu(cupy: Any, path: Path, jpeg: Any, layout: Any) -> None:
    pipelines = {"image": [*PIPELINE, ops.ToLayout(layout)]}
    options: dict[str, Any] = {"order": "random", "pipelines": pipelines, "collate": "pad", "seed": 3}
    loader = hr.Loader(path, 16, framework="cupy", device="cuda:0", jpeg=jpeg, **options)
    found, expected = list(loader), list(hr.Loader(path, 16, jpeg="window", **options))
    assert len(found) == len(expected) == 9
    for a, b in zip(found, expected, strict=True):
        assert a.image.strides == b.image.strides
        np.testing.assert_array_equal(a.image.get(), b.image)
        np.testing.assert_array_equal(a.label.get(), b.label)
        np.testing.assert_array_equal(a.blob.values.get(), b.blob.values)


@pytest.mark.parametrize("jpeg", ["window", "auto"])
@pytest.mark.parametrize("is_own_stream", [False, True])
def test_batches_are_not_overwritten_while_the_gpu_is_busy(
    cupy: Any, path: Path, jpeg: Any, is_own_stream: bool
) -> None:
    loader = hr.Loader(path, 16, framework="cupy", jpeg=jpeg, pipelines={"image": PIPELINE}, batches_ahead=1)
    expected = [batch.image for batch in hr.Loader(path, 16, pipelines={"image": PIPELINE})]
    stream = cupy.cuda.Stream(non_blocking=True) if is_own_stream else cupy.cuda.Stream.null
    with stream:
        big, copies = cupy.random.random((4096, 4096), dtype=cupy.float32), []
        for batch in loader:
            for _ in range(20):
                big = cupy.tanh(big @ big)  # the stream is far behind
            copies.append(batch.image.copy())
            del batch
        for found, wanted in zip(copies, expected, strict=True):
            np.testing.assert_array_equal(found.get(), wanted)


def test_other_frameworks_read_the_arrays_by_dlpack(cupy: Any, path: Path) -> None:
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("torch finds no GPU")
    batch = hr.Loader(path, 16, framework="cupy", pipelines={"image": PIPELINE})[0]
    tensor = torch.from_dlpack(batch.image)
    assert tensor.data_ptr() == batch.image.data.ptr
    expected = batch.image.get()
    del batch
    gc.collect()
    assert np.array_equal(tensor.cpu().numpy(), expected)


def test_gpu_memory_does_not_grow(cupy: Any, path: Path) -> None:
    loader = hr.Loader(path, 16, framework="cupy", order="random", pipelines={"image": PIPELINE})

    def used() -> int:
        for _ in loader:
            pass
        gc.collect()
        return int(cupy.get_default_memory_pool().used_bytes())

    used()
    before = used()
    assert max(used() for _ in range(4)) <= before + (8 << 20)
