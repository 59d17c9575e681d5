"""DALI on the CPU: its file reader, a decoder that decodes the crop alone, and its resize."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from nvidia.dali import fn, pipeline_def, types

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headrace.bench.peers.contender import Place

__all__ = ["DaliLoader"]

_WAITING = 4
"""More batches than it keeps ready."""


class DaliLoader:
    """One pipeline with as many threads as there are workers."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._pipeline: Any = None

    def write(self) -> None:
        """Nothing: it reads the files themselves."""

    def settle(self) -> None:
        """Take the batches that may be waiting: its threads have worked on while others had their turn."""
        if self._pipeline is None:
            files = [str(path) for path in self._place.files()]
            self._pipeline = _crops(
                files, self._place.side, batch_size=self._place.batch, num_threads=self._place.workers, device_id=None
            )
            self._pipeline.build()
        for _ in range(_WAITING):
            self._pipeline.run()

    def epoch(self) -> Iterable[Any]:
        """As many batches as an epoch has; the reader begins anew by itself."""
        for _ in range(-(-len(self._place.files()) // self._place.batch)):
            (batch,) = self._pipeline.run()
            yield batch.as_array()

    def whole(self, data: bytes) -> Any:
        """By its decoder and its resize."""
        one = _whole(np.frombuffer(data, np.uint8), self._place.side, batch_size=1, num_threads=1, device_id=None)
        one.build()
        (batch,) = one.run()
        return batch.as_array()[0]


@pipeline_def  # type: ignore[untyped-decorator]
def _crops(files: list[str], side: int) -> Any:
    data, _ = fn.readers.file(files=files, random_shuffle=True)
    pictures = fn.decoders.image_random_crop(
        data, output_type=types.RGB, random_area=[0.08, 1.0], random_aspect_ratio=[3 / 4, 4 / 3]
    )
    return fn.transpose(fn.resize(pictures, resize_x=side, resize_y=side), perm=[2, 0, 1])


@pipeline_def  # type: ignore[untyped-decorator]
def _whole(data: Any, side: int) -> Any:
    picture = fn.decoders.image(types.Constant(data), output_type=types.RGB)
    return fn.resize(picture, resize_x=side, resize_y=side)
