"""SPDL: threads, decoded and scaled by FFmpeg's filters without the GIL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import spdl.io
from spdl.pipeline import PipelineBuilder

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headrace.bench.peers.contender import Place

__all__ = ["SpdlLoader"]


class SpdlLoader:
    """A pipeline for each epoch: read and decode in threads, then batches."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._rng = np.random.default_rng(0)

    def write(self) -> None:
        """Nothing: it reads the files themselves."""

    def epoch(self) -> Iterable[Any]:
        """Decoding has as many threads as there are workers."""
        paths = [str(path) for path in self._place.files()]
        self._rng.shuffle(paths)
        workers = self._place.workers
        pipeline = (
            PipelineBuilder()
            .add_source(paths)
            .pipe(self._decode, concurrency=workers)
            .aggregate(self._place.batch)
            .pipe(_to_batch)
            .add_sink(3)
            .build(num_threads=workers + 1)
        )
        with pipeline.auto_stop():
            yield from pipeline

    def _decode(self, path: str) -> Any:
        share = self._rng.uniform(0.08, 1.0)
        aspect = np.exp(self._rng.uniform(np.log(3 / 4), np.log(4 / 3)) / 2)
        w, h = min(1.0, share**0.5 * aspect), min(1.0, share**0.5 / aspect)
        x, y = self._rng.uniform(0, 1, 2)
        return self._frames(path, f"crop=w=iw*{w:.4f}:h=ih*{h:.4f}:x=(iw-ow)*{x:.4f}:y=(ih-oh)*{y:.4f},")

    def _frames(self, source: str | bytes, crop: str) -> Any:
        side = self._place.side
        filters = f"{crop}scale=w={side}:h={side}:flags=bilinear,format=pix_fmts=rgb24"
        return spdl.io.decode_packets(spdl.io.demux_image(source), filter_desc=filters)

    def whole(self, data: bytes) -> Any:
        """By FFmpeg."""
        return spdl.io.to_numpy(spdl.io.convert_frames(self._frames(data, "")))


def _to_batch(frames: list[Any]) -> Any:
    pictures = spdl.io.to_numpy(spdl.io.convert_frames(frames))
    return np.ascontiguousarray(pictures.transpose(0, 3, 1, 2))
