"""Batches on a GPU; skipped where there is none."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.helpers import picture

import headrace as hr
from headrace import ops

if TYPE_CHECKING:
    from pathlib import Path

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")

PIPELINES = {
    "image": [ops.RandomResizedCrop(64), ops.Normalize([120] * 3, [60] * 3, dtype="float16"), ops.ToLayout("NCHW")]
}


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("cuda") / "x.beton"
    samples = [(picture(i, 90 + i % 7, 80), i, bytes([i]) * (i % 5)) for i in range(150)]
    hr.write(path, samples, fields={"image": hr.Image(mode="jpg"), "label": hr.Int(), "blob": hr.Bytes()})
    return path


def test_batches_on_the_gpu_are_those_of_the_cpu(path: Path) -> None:
    options = {"order": "random", "pipelines": PIPELINES, "collate": "pad", "seed": 3}
    expected = list(hr.Loader(path, 16, **options))
    found = list(hr.Loader(path, 16, device="cuda", **options))
    assert len(found) == len(expected) == 9
    for a, b in zip(found, expected, strict=True):
        assert a.image.device.type == "cuda"
        assert a.image.dtype == torch.float16
        assert np.array_equal(a.image.cpu().numpy(), b.image)
        assert np.array_equal(a.label.cpu().numpy(), b.label)
        assert np.array_equal(a.blob.values.cpu().numpy(), b.blob.values)


def test_kept_batches_are_not_overwritten_while_the_gpu_is_busy(path: Path) -> None:
    loader = hr.Loader(path, 16, device="cuda:0", order="sequential", pipelines=PIPELINES, batches_ahead=1)
    expected = [batch.image for batch in hr.Loader(path, 16, pipelines=PIPELINES)]
    big = torch.randn(4096, 4096, device="cuda")
    for _ in range(3):
        sums = []
        for batch in loader:
            for _ in range(20):
                big = (big @ big).clamp(-1, 1)  # the consumer's stream is far behind
            sums.append(batch.image.clone())
        for found, wanted in zip(sums, expected, strict=True):
            if loader.epoch == 1:  # only the first epoch has the same crops
                assert np.array_equal(found.cpu().numpy(), wanted)


def test_modules_run_on_the_gpu(path: Path) -> None:
    pipelines = {"image": [*PIPELINES["image"], torch.nn.AvgPool2d(2).cuda().half()], "label": None, "blob": None}
    (images,) = next(iter(hr.Loader(path, 8, device="cuda", pipelines=pipelines)))
    assert images.shape == (8, 3, 32, 32)
    assert images.is_cuda


def test_channels_last_stays_channels_last(path: Path) -> None:
    pipelines = {"image": [ops.RandomResizedCrop(64), ops.ToLayout("channels_last")], "label": None, "blob": None}
    (images,) = next(iter(hr.Loader(path, 8, device="cuda", pipelines=pipelines)))
    assert images.shape == (8, 3, 64, 64)
    assert images.is_contiguous(memory_format=torch.channels_last)


def test_gpu_memory_does_not_grow(path: Path) -> None:
    loader = hr.Loader(path, 16, device="cuda", order="random", pipelines=PIPELINES)
    for _ in loader:
        pass
    gc.collect()
    before = torch.cuda.memory_allocated()
    for _ in range(5):
        for _ in loader:
            pass
    gc.collect()
    assert torch.cuda.memory_allocated() <= before
