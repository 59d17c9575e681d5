"""Batches on their way to a GPU: what a copy reads stays until it is done. The rest needs a GPU and is skipped else."""

from __future__ import annotations

import contextlib
import gc
import weakref
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.helpers import picture

torch = pytest.importorskip("torch")

from tests.unit.compat.ffcv.tools import Doubler, write  # noqa: E402

from headrace.compat.ffcv import Loader  # noqa: E402
from headrace.compat.ffcv.fields import IntField, NDArrayField, RGBImageField  # noqa: E402
from headrace.compat.ffcv.fields.decoders import (  # noqa: E402
    IntDecoder,
    NDArrayDecoder,
    RandomResizedCropRGBImageDecoder,
    SimpleRGBImageDecoder,
)
from headrace.compat.ffcv.loader import OrderOption, epoch_iterator  # noqa: E402
from headrace.compat.ffcv.transforms import (  # noqa: E402
    NormalizeImage,
    RandomHorizontalFlip,
    Squeeze,
    ToDevice,
    ToTensor,
    ToTorchImage,
    View,
)

if TYPE_CHECKING:
    from pathlib import Path

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")


class FakeEvent:
    def __init__(self) -> None:
        self.is_done = False

    def query(self) -> bool:
        return self.is_done

    def synchronize(self) -> None:
        self.is_done = True


class FakeStream:
    def __init__(self, device: Any) -> None:
        self.device = device
        self.events: list[FakeEvent] = []

    def record_event(self) -> FakeEvent:
        self.events.append(FakeEvent())
        return self.events[-1]


@pytest.fixture
def streams(monkeypatch: pytest.MonkeyPatch) -> epoch_iterator._Streams:
    monkeypatch.setattr(torch.cuda, "Stream", FakeStream)
    monkeypatch.setattr(torch.cuda, "stream", lambda stream: contextlib.nullcontext())
    return epoch_iterator._Streams({"cuda:0", "cuda:1"})


def test_memory_stays_until_its_copies_are_done(streams: epoch_iterator._Streams) -> None:
    pieces = [np.zeros(3), np.zeros(3), np.zeros(3)]
    alive = [weakref.ref(piece) for piece in pieces]
    with streams.used():
        marks = [streams.mark([pieces.pop(0)]) for _ in range(3)]
    gc.collect()
    assert [ref() is not None for ref in alive] == [True] * 3
    assert [stream.device for stream, _ in marks[0]] == [stream.device for stream, _ in marks[1]]
    marks[0][0][1].is_done = True
    marks[1][0][1].is_done = marks[1][1][1].is_done = True
    streams.mark([])  # the second batch is done on both devices, the first on one only
    assert [ref() is not None for ref in alive] == [True] * 3
    marks[0][1][1].is_done = True
    streams.mark([])
    assert [ref() is not None for ref in alive] == [False, False, True]
    streams.close()
    assert all(event.is_done for mark in marks for _, event in mark)
    assert alive[2]() is None


def test_without_a_gpu_there_are_no_streams() -> None:
    streams = epoch_iterator._Streams(set())
    assert not streams
    streams.close()


# -- on a GPU ------------------------------------------------------------------------------------------------

COUNT = 96


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    fields = {"image": RGBImageField("jpg"), "array": NDArrayField(np.dtype("<f4"), (20_000,)), "label": IntField()}

    def sample(i: int) -> tuple[Any, ...]:
        return picture(i, 64, 64), np.full(20_000, i, "<f4"), i

    return write(tmp_path_factory.mktemp("cuda") / "x.beton", fields, COUNT, sample, page_size=1 << 23)


def pipelines(device: str) -> dict[str, list[Any]]:
    to_device = [] if device == "cpu" else [ToDevice(torch.device(device), non_blocking=True)]
    return {
        "image": [
            RandomResizedCropRGBImageDecoder((48, 48)),
            RandomHorizontalFlip(),
            ToTensor(),
            *to_device,
            ToTorchImage(),
        ],
        "array": [NDArrayDecoder(), Doubler(), ToTensor(), *to_device],
        "label": [IntDecoder(), ToTensor(), Squeeze(), *to_device],
    }


@needs_gpu
def test_batches_on_the_gpu_are_those_of_the_cpu(path: Path) -> None:
    options: dict[str, Any] = {"order": OrderOption.RANDOM, "seed": 3}
    expected = Loader(path, 16, 2, pipelines=pipelines("cpu"), **options)
    found = Loader(path, 16, 2, pipelines=pipelines("cuda:0"), **options)
    for _ in range(3):
        kept = list(found)
        for ours, theirs in zip(kept, expected, strict=True):
            for a, b in zip(ours, theirs, strict=True):
                assert a.is_cuda
                assert torch.equal(a.cpu(), b)
            assert ours[0].is_contiguous(memory_format=torch.channels_last)


@needs_gpu
def test_copies_are_not_overtaken(path: Path) -> None:
    loader = Loader(path, 16, 2, batches_ahead=3, pipelines=pipelines("cuda:0"))
    busy = torch.randn(4000, 4000, device="cuda:0")
    for _ in range(5):
        for _, array, label in loader:
            busy = busy @ busy / 4000  # the stream of the consumer lags behind
            assert torch.equal(array, (2 * label[:, None]).float().expand(-1, 20_000))


@needs_gpu
def test_normalizing_on_the_gpu(path: Path) -> None:
    mean, std = np.array([0, 1, 2]), np.array([1, 10, 20])
    on_gpu = [
        SimpleRGBImageDecoder(),
        ToTensor(),
        ToDevice(torch.device("cuda:0")),
        ToTorchImage(),
        NormalizeImage(mean, std, np.float16),
        View(torch.float16),
    ]
    on_cpu = [SimpleRGBImageDecoder(), NormalizeImage(mean, std, np.float16), ToTensor(), ToTorchImage()]
    others = {"array": None, "label": None}
    found = Loader(path, 16, 2, pipelines={"image": on_gpu, **others})
    expected = Loader(path, 16, 2, pipelines={"image": on_cpu, **others})
    for (a,), (b,) in zip(found, expected, strict=True):
        assert torch.equal(a.cpu(), b)
