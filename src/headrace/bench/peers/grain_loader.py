"""Grain on ArrayRecord: processes that stay, cropped by Pillow."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grain
import numpy as np
from absl import flags
from array_record.python.array_record_data_source import ArrayRecordDataSource
from array_record.python.array_record_module import ArrayRecordWriter

from headrace.bench.peers.pillow_crop import PillowCrop, resized_crop

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from headrace.bench.peers.contender import Place

__all__ = ["GrainLoader"]

_AHEAD = 2
"""Batches of samples that each process keeps ready; the default, of 500 samples, could hold a whole epoch."""
_WAITING = _AHEAD + 2


class GrainLoader:
    """A dataset that repeats for ever, so that its processes start once; so many batches are an epoch."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._path = str(Path(place.folder, "x.array_record"))
        self._batches: Any = None

    def write(self) -> None:
        """A record for each JPEG, as its documentation advises for random access."""
        writer = ArrayRecordWriter(self._path, "group_size:1")
        for path in self._place.files():
            writer.write(path.read_bytes())
        writer.close()

    def settle(self) -> None:
        """Take the batches that may be waiting: its processes have worked on while others had their turn."""
        if self._batches is None:
            self._batches = self._begin()
        for _ in islice(self._batches, _WAITING * self._place.workers + 1):
            pass

    def epoch(self) -> Iterable[Any]:
        """The next batches, as many as an epoch has."""
        return islice(self._batches, -(-len(self._place.files()) // self._place.batch))

    def _begin(self) -> Iterator[Any]:
        flags.FLAGS.mark_as_parsed()  # Grain asks for some, which is an error before a program has read its own
        source = ArrayRecordDataSource([self._path])
        samples = grain.MapDataset.source(source).shuffle(seed=0).repeat().map(PillowCrop(self._place.side))
        ahead = grain.ReadOptions(prefetch_buffer_size=_AHEAD * self._place.batch)
        batches = samples.to_iter_dataset(ahead).batch(self._place.batch, batch_fn=np.stack)
        options = grain.MultiprocessingOptions(num_workers=self._place.workers)
        return iter(batches.mp_prefetch(options))

    def whole(self, data: bytes) -> Any:
        """By Pillow."""
        return resized_crop(data, self._place.side, None)
