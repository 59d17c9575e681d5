"""Operations and decoders of a user's own, compiled by a real numba: the same bytes as without it."""

from __future__ import annotations

import sys
import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.helpers import picture

pytest.importorskip("torch")
numba = pytest.importorskip("numba")

from tests.unit.compat.ffcv.tools import write  # noqa: E402

from headrace.compat.ffcv import Loader  # noqa: E402
from headrace.compat.ffcv.fields import IntField, RGBImageField  # noqa: E402
from headrace.compat.ffcv.fields.decoders import IntDecoder, SimpleRGBImageDecoder  # noqa: E402
from headrace.compat.ffcv.fields.rgb_image import ResizedCropRGBImageDecoder, get_random_crop  # noqa: E402
from headrace.compat.ffcv.libffcv import imdecode, memcpy, resize_crop  # noqa: E402
from headrace.compat.ffcv.loader import OrderOption  # noqa: E402
from headrace.compat.ffcv.pipeline.allocation_query import AllocationQuery  # noqa: E402
from headrace.compat.ffcv.pipeline.compiler import Compiler  # noqa: E402
from headrace.compat.ffcv.pipeline.operation import Operation  # noqa: E402
from headrace.compat.ffcv.transforms import ToTensor  # noqa: E402
from headrace.compat.ffcv.transforms.utils import fast_crop  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
BYTE = np.dtype("u1")


@numba.njit  # type: ignore[untyped-decorator]
def seed_numba(number: int) -> None:
    np.random.seed(number)


class Decoder(SimpleRGBImageDecoder):
    """Decodes whole pictures, and resizes a part of each that its own seed chooses."""

    def declare_state_and_memory(self, previous_state: Any) -> tuple[Any, Any]:
        whole = int(self.metadata["height"].max()) * int(self.metadata["width"].max()) * 3
        state = replace(previous_state, jit_mode=True, shape=(12, 10, 3), dtype=BYTE)
        return state, (AllocationQuery((12, 10, 3), BYTE), AllocationQuery((whole,), BYTE))

    def generate_code(self) -> Callable[..., Any]:
        read, decode, resize = self.memory_read, Compiler.compile(imdecode), Compiler.compile(resize_crop)
        crop_of, pictures = Compiler.compile(get_random_crop), Compiler.get_iterator()
        scale, ratio = np.array((0.2, 1.0)), np.array((0.75, 4 / 3))

        def load(indices: Any, memory: Any, metadata: Any, storage_state: Any) -> Any:
            out, whole = memory
            for i in pictures(len(indices)):
                seed_numba(indices[i])
                record = metadata[indices[i]]
                data = read(record["data_ptr"], storage_state)
                height, width = np.uint32(record["height"]), np.uint32(record["width"])
                pixels = whole[i][: height * width * 3]
                decode(data, pixels, height, width, height, width, 0, 0, 1, 1, False, False)
                top, left, h, w = crop_of(height, width, scale, ratio)
                resize(pixels.reshape(height, width, 3), top, top + h, left, left + w, out[i])
            return out[: len(indices)]

        load.is_parallel = True  # type: ignore[attr-defined]
        return load


class Cropped(ResizedCropRGBImageDecoder):
    scale, ratio = (0.2, 1.0), (0.75, 4 / 3)

    @property
    def get_crop_generator(self) -> Callable[..., Any]:
        crop_of = Compiler.compile(get_random_crop)

        def crop(height: Any, width: Any, scale: Any, ratio: Any) -> Any:
            np.random.seed(height * width)
            return crop_of(height, width, scale, ratio)

        return crop


class Shifted(Operation):
    """Adds what it draws, by its own seed, and copies the number of the sample behind it."""

    def declare_state_and_memory(self, previous_state: Any) -> tuple[Any, AllocationQuery]:
        return replace(previous_state, shape=(2,)), AllocationQuery((2,), previous_state.dtype)

    def generate_code(self) -> Callable[..., Any]:
        copy = Compiler.compile(memcpy)

        def shift(values: Any, dst: Any, indices: Any) -> Any:
            np.random.seed(indices[0])
            for i in range(len(values)):
                copy(values[i], dst[i])
                dst[i, 1] = values[i, 0] + np.random.randint(0, 1000)
            return dst

        shift.with_indices = True  # type: ignore[attr-defined]
        return shift


def batches(path: Path, image: Any, workers: int) -> list[bytes]:
    pipelines = {"image": [image, ToTensor()], "label": [IntDecoder(), Shifted(), ToTensor()]}
    loader = Loader(path, 6, workers, order=OrderOption.RANDOM, seed=1, pipelines=pipelines)
    return [part.numpy().tobytes() for _ in range(2) for batch in loader for part in batch]


@pytest.mark.parametrize("make", [Decoder, lambda: Cropped((12, 10))])
def test_compiled_or_not_the_bytes_are_the_same(
    tmp_path: Path, make: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    fields = {"image": RGBImageField("jpg"), "label": IntField()}
    path = write(tmp_path / "x.beton", fields, 18, lambda i: (picture(i, 40 + 8 * (i % 3), 48), i))
    state = np.random.get_state()[2]
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)  # numba refuses nothing
        compiled = batches(path, make(), 1)
        assert batches(path, make(), 2) == compiled
    monkeypatch.setitem(sys.modules, "numba", None)
    assert batches(path, make(), 1) == compiled
    assert np.random.get_state()[2] == state


def test_crops_for_compiled_functions() -> None:
    pixels = picture(0, 40, 30)

    @numba.njit(nogil=True)  # type: ignore[untyped-decorator]
    def crop(pixels: Any, out: Any) -> Any:
        fast_crop.resize_crop(pixels, 3, 30, 2, 20, out)
        return fast_crop.get_center_crop(40, 30, 0.5), fast_crop.get_random_crop(
            40, 30, np.array((0.1, 1.0)), np.array((0.75, 1.3))
        )

    out, expected = np.zeros((9, 7, 3), np.uint8), np.zeros((9, 7, 3), np.uint8)
    middle, (top, left, height, width) = crop(pixels, out)
    resize_crop(pixels, 3, 30, 2, 20, expected)
    assert (out == expected).all()
    assert middle == (12, 7, 15, 15)
    assert 0 <= top <= 40 - height
    assert 0 <= left <= 30 - width
