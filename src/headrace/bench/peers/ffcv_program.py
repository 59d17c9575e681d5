"""A program written for FFCV, for the suite ``ffcv``: it runs on FFCV, and unchanged on this package's launcher.

usage: PYTHON ffcv_program.py '{"path": "x.beton", "kind": "plain", "order": "random"}'
Kinds: plain; moved (flip, translate, cutout); array; number; and operations of a user's own that numba compiles:
invert, mirror, decoder. Each line of standard input is answered with a line of JSON: the seconds of an epoch.
"""

import json
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from ffcv.fields.decoders import FloatDecoder, IntDecoder, NDArrayDecoder, SimpleRGBImageDecoder
from ffcv.loader import Loader, OrderOption
from ffcv.transforms import Cutout, RandomHorizontalFlip, RandomTranslate, Squeeze, ToTensor, ToTorchImage

SIDE = 32


def own_operations() -> dict[str, Callable[[], Any]]:
    """Imported only where they are asked for: they need numba."""
    from ffcv.fields.rgb_image import get_random_crop
    from ffcv.libffcv import imdecode, resize_crop
    from ffcv.pipeline.allocation_query import AllocationQuery
    from ffcv.pipeline.compiler import Compiler
    from ffcv.pipeline.operation import Operation

    class PerPicture(Operation):  # type: ignore[misc]
        def declare_state_and_memory(self, previous_state: Any) -> tuple[Any, Any]:
            return replace(previous_state, jit_mode=True), AllocationQuery(previous_state.shape, previous_state.dtype)

    class Invert(PerPicture):
        def generate_code(self) -> Callable[..., Any]:
            pictures = Compiler.get_iterator()

            def invert(images: Any, dst: Any) -> Any:
                for i in pictures(images.shape[0]):
                    dst[i] = 255 - images[i]
                return dst

            invert.is_parallel = True  # type: ignore[attr-defined]
            return invert

    class Mirror(PerPicture):
        def generate_code(self) -> Callable[..., Any]:
            pictures = Compiler.get_iterator()

            def mirror(images: Any, dst: Any) -> Any:
                for i in pictures(images.shape[0]):
                    if np.random.rand() < 0.5:
                        dst[i] = images[i, ::-1]
                    else:
                        dst[i] = images[i]
                return dst

            mirror.is_parallel = True  # type: ignore[attr-defined]
            return mirror

    class Decoder(SimpleRGBImageDecoder):  # type: ignore[misc]
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

            load.is_parallel = True  # type: ignore[attr-defined]
            return load

    return {
        "invert": lambda: [SimpleRGBImageDecoder(), Invert(), ToTensor()],
        "mirror": lambda: [SimpleRGBImageDecoder(), Mirror(), ToTensor()],
        "decoder": lambda: [Decoder(), ToTensor()],
    }


def pipelines(kind: str) -> dict[str, Any]:
    """What a kind does with each field."""
    label = [IntDecoder(), ToTensor(), Squeeze()]
    if kind == "array":
        return {"array": [NDArrayDecoder(), ToTensor()], "label": label}
    if kind == "number":
        return {"label": label, "weight": [FloatDecoder(), ToTensor(), Squeeze()]}
    if kind in ("plain", "moved"):
        moves = [RandomHorizontalFlip(), RandomTranslate(2), Cutout(8)] if kind == "moved" else []
        return {"image": [SimpleRGBImageDecoder(), *moves, ToTensor(), ToTorchImage()], "label": label}
    return {"image": own_operations()[kind]()}


def main() -> None:
    """Answer until there are no more questions."""
    facts = json.loads(sys.argv[1])
    loader = Loader(
        facts["path"],
        batch_size=512,
        num_workers=1,
        order=OrderOption[facts["order"].upper()],
        os_cache=True,
        drop_last=False,
        seed=1,
        pipelines=pipelines(facts["kind"]),
    )
    for _ in sys.stdin:
        start_s = time.perf_counter()
        samples = sum(len(batch[0]) for batch in loader)
        print("\n" + json.dumps({"seconds": time.perf_counter() - start_s, "samples": samples}), flush=True)


if __name__ == "__main__":
    main()
