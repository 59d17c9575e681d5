"""A program for FFCV with operations of its own that numba compiles: seconds of epochs, batches of 512, one worker.

usage: PYTHON-WITH-NUMBA ffcv_own_operation.py FILE.beton invert|mirror|decoder EPOCHS
Prints one JSON line: seconds and CPU seconds of each epoch after a warm-up, and images of an epoch.
"""

import json
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from ffcv.fields.decoders import SimpleRGBImageDecoder
from ffcv.fields.rgb_image import get_random_crop
from ffcv.libffcv import imdecode, resize_crop
from ffcv.loader import Loader, OrderOption
from ffcv.pipeline.allocation_query import AllocationQuery
from ffcv.pipeline.compiler import Compiler
from ffcv.pipeline.operation import Operation
from ffcv.transforms import ToTensor

SIDE = 32


class _PerPicture(Operation):
    def declare_state_and_memory(self, previous_state: Any) -> tuple[Any, Any]:
        return replace(previous_state, jit_mode=True), AllocationQuery(previous_state.shape, previous_state.dtype)


class _Invert(_PerPicture):
    def generate_code(self) -> Callable[..., Any]:
        pictures = Compiler.get_iterator()

        def invert(images: Any, dst: Any) -> Any:
            for i in pictures(images.shape[0]):
                dst[i] = 255 - images[i]
            return dst

        invert.is_parallel = True
        return invert


class _Mirror(_PerPicture):
    def generate_code(self) -> Callable[..., Any]:
        pictures = Compiler.get_iterator()

        def mirror(images: Any, dst: Any) -> Any:
            for i in pictures(images.shape[0]):
                if np.random.rand() < 0.5:
                    dst[i] = images[i, ::-1]
                else:
                    dst[i] = images[i]
            return dst

        mirror.is_parallel = True
        return mirror


class _Decoder(SimpleRGBImageDecoder):
    """A random part of each JPEG, resized, all of it in a function of its own."""

    def declare_state_and_memory(self, previous_state: Any) -> tuple[Any, Any]:
        shape, whole = (SIDE, SIDE, 3), int(self.metadata["height"].max()) * int(self.metadata["width"].max()) * 3
        queries = AllocationQuery(shape, np.dtype("u1")), AllocationQuery((whole,), np.dtype("u1"))
        return replace(previous_state, jit_mode=True, shape=shape, dtype=np.dtype("u1")), queries

    def generate_code(self) -> Callable[..., Any]:
        read, decode, resize = self.memory_read, Compiler.compile(imdecode), Compiler.compile(resize_crop)
        crop_of, pictures = Compiler.compile(get_random_crop), Compiler.get_iterator()
        scale, ratio = np.array((0.2, 1.0)), np.array((0.75, 4 / 3))

        def load(indices: Any, memory: Any, metadata: Any, storage_state: Any) -> Any:
            out, whole = memory
            for i in pictures(len(indices)):
                record = metadata[indices[i]]
                data = read(record["data_ptr"], storage_state)
                height, width = np.uint32(record["height"]), np.uint32(record["width"])
                pixels = whole[i][: height * width * 3]
                decode(data, pixels, height, width, height, width, 0, 0, 1, 1, False, False)
                top, left, h, w = crop_of(height, width, scale, ratio)
                resize(pixels.reshape(height, width, 3), top, top + h, left, left + w, out[i])
            return out[: len(indices)]

        load.is_parallel = True
        return load


PIPELINES = {
    "invert": lambda: [SimpleRGBImageDecoder(), _Invert(), ToTensor()],
    "mirror": lambda: [SimpleRGBImageDecoder(), _Mirror(), ToTensor()],
    "decoder": lambda: [_Decoder(), ToTensor()],
}


def main() -> None:
    path, kind, epochs = sys.argv[1], sys.argv[2], int(sys.argv[3])
    loader = Loader(
        path,
        512,
        num_workers=1,
        order=OrderOption.RANDOM,
        seed=1,
        drop_last=False,
        pipelines={"image": PIPELINES[kind]()},
    )
    seconds, cpu_seconds = [], []
    for _ in range(epochs + 1):
        start_s, start_cpu_s = time.perf_counter(), time.process_time()
        images = sum(len(batch[0]) for batch in loader)
        cpu_seconds.append(time.process_time() - start_cpu_s)
        seconds.append(time.perf_counter() - start_s)
    print(json.dumps({"seconds": seconds[1:], "cpu_seconds": cpu_seconds[1:], "images": images}))


if __name__ == "__main__":
    main()
