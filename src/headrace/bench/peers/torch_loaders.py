"""Loaders around torch's DataLoader: plain files, WebDataset, MosaicML Streaming, LitData.

JPEGs are kept as bytes, and cropped by the same function with Pillow; but for torchvision, which decodes itself.
"""

from __future__ import annotations

import importlib.machinery
import sys
import types
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch.utils.data

from headrace.bench.peers.headrace_loader import FIELDS
from headrace.bench.peers.peer import is_there
from headrace.bench.peers.pillow_crop import PillowCrop, draw_box, resized_crop
from headrace.formats.write import write

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headrace.bench.peers.contender import Place

__all__ = [
    *("LitDataLoader", "MosaicLoader", "PillowLoader", "TorchvisionLoader", "WebDatasetLoader"),
    *("cropped_by", "import_streaming"),
]

_SHARDS = 16
_SHUFFLED = 1000


class _TorchLoader:
    """A DataLoader whose processes stay."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.crop: Any = PillowCrop(place.side)
        self._loader: Any = None

    def write(self) -> None:
        """Nothing: it reads the files themselves."""

    def make(self, **options: Any) -> Any:
        """Make the DataLoader."""
        raise NotImplementedError

    def epoch(self) -> Iterable[Any]:
        """An epoch of the same DataLoader."""
        if self._loader is None:
            # Processes are forked: a dataset that is made in a function cannot travel otherwise.
            self._loader = self.make(
                num_workers=self.place.workers, persistent_workers=True, multiprocessing_context="fork"
            )
        for batch in self._loader:
            yield batch[0] if isinstance(batch, list | tuple) else batch

    def whole(self, data: bytes) -> Any:
        """By Pillow."""
        return resized_crop(data, self.place.side, None)


class _Files:
    """Files that are read and cropped one by one."""

    def __init__(self, paths: list[Path], crop: Any) -> None:
        self._paths, self._crop = paths, crop

    def __len__(self) -> int:
        return len(self._paths)

    def __getitem__(self, number: int) -> Any:
        return self._crop(self._paths[number].read_bytes())


class PillowLoader(_TorchLoader):
    """Plain files, DataLoader, Pillow."""

    def make(self, **options: Any) -> Any:
        """Shuffled by the DataLoader."""
        files = _Files(self.place.files(), self.crop)
        return torch.utils.data.DataLoader(files, batch_size=self.place.batch, shuffle=True, **options)


class _TorchvisionCrop:
    """decode_jpeg and resized_crop of torchvision, with antialiasing."""

    def __init__(self, side: int) -> None:
        self._side, self._rng = side, np.random.default_rng(0)

    def __call__(self, data: bytes) -> Any:
        picture = decode(data)
        left, top, w, h = draw_box(picture.shape[2], picture.shape[1], self._rng)
        return resize(picture[:, top : top + h, left : left + w], self._side)


def decode(data: bytes) -> Any:
    """A JPEG as CHW by torchvision."""
    from torchvision.io import ImageReadMode, decode_jpeg

    return decode_jpeg(torch.frombuffer(bytearray(data), dtype=torch.uint8), mode=ImageReadMode.RGB)


def resize(picture: Any, side: int) -> Any:
    """A picture of one size by torchvision."""
    from torchvision.transforms.v2.functional import resize as resized

    return resized(picture, [side, side], antialias=True)


class TorchvisionLoader(PillowLoader):
    """Plain files, DataLoader, torchvision."""

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        torch.set_num_threads(1)  # as in the processes of a DataLoader
        self.crop = _TorchvisionCrop(place.side)

    def whole(self, data: bytes) -> Any:
        """By torchvision."""
        return resize(decode(data), self.place.side).permute(1, 2, 0).numpy()


class WebDatasetLoader(_TorchLoader):
    """Tars, streamed."""

    def write(self) -> None:
        """As many tars as the processes of the largest run can share."""
        samples = [(path.read_bytes(), number) for number, path in enumerate(self.place.files())]
        shards = str(Path(self.place.folder, "x-%06d.tar"))
        write(shards, samples, fields=FIELDS, shard_samples=-(-len(samples) // _SHARDS))

    def make(self, **options: Any) -> Any:
        """Tars in shuffled order, and a buffer."""
        import webdataset

        paths = sorted(map(str, Path(self.place.folder).glob("*.tar")))
        crop = self.crop
        shards = webdataset.WebDataset(paths, shardshuffle=len(paths)).shuffle(_SHUFFLED).to_tuple("jpg;jpeg")
        batches = shards.map(lambda sample: crop(sample[0])).batched(self.place.batch, collation_fn=np.stack)
        return torch.utils.data.DataLoader(batches, batch_size=None, **options)


class MosaicLoader(_TorchLoader):
    """MDS, MosaicML Streaming."""

    def write(self) -> None:
        """Shards of 64 MB."""
        columns = {"image": "bytes", "label": "int"}
        with import_streaming().MDSWriter(out=self.place.folder, columns=columns, size_limit=64 << 20) as writer:
            for number, path in enumerate(self.place.files()):
                writer.write({"image": path.read_bytes(), "label": number})

    def make(self, **options: Any) -> Any:
        """Shuffled by its own order."""
        streaming = import_streaming()
        streaming.base.util.clean_stale_shared_memory()
        photographs = cropped_by(self.crop, streaming.StreamingDataset)(
            local=self.place.folder, shuffle=True, batch_size=self.place.batch
        )
        return torch.utils.data.DataLoader(photographs, batch_size=self.place.batch, **options)


class LitDataLoader(_TorchLoader):
    """LitData's chunks and its own DataLoader."""

    def write(self) -> None:
        """Chunks of 64 MB."""
        from litdata.streaming.writer import BinaryWriter

        writer = BinaryWriter(self.place.folder, chunk_bytes=64 << 20)
        for number, path in enumerate(self.place.files()):
            writer[number] = {"image": path.read_bytes(), "label": number}
        writer.done()
        writer.merge(1)

    def make(self, **options: Any) -> Any:
        """Shuffled by its own order."""
        import litdata

        photographs = cropped_by(self.crop, litdata.StreamingDataset)(self.place.folder, shuffle=True, drop_last=False)
        return litdata.StreamingDataLoader(photographs, batch_size=self.place.batch, **options)


def cropped_by(crop: Any, base: Any) -> Any:
    """A dataset class whose samples are crops of their JPEGs."""

    class Photographs(base):  # type: ignore[misc, unused-ignore]
        def __getitem__(self, index: Any) -> Any:
            return crop(super().__getitem__(index)["image"])

    return Photographs


_UNUSED = {
    "torchvision": (),
    "torchvision.datasets": ("VisionDataset", "CIFAR10"),
    "torchvision.transforms": (),
    "torchvision.transforms.functional": ("to_tensor",),
    "transformers": (),
    "transformers.feature_extraction_utils": ("BatchFeature",),
    "transformers.tokenization_utils_base": ("BatchEncoding",),
    "transformers.models": (),
    "transformers.models.auto": (),
    "transformers.models.auto.tokenization_auto": ("AutoTokenizer",),
}
"""What MosaicML Streaming imports, and only uses in datasets of texts and of pictures as tensors."""


def import_streaming() -> Any:
    """MosaicML Streaming, also where large packages that are not used here are not installed."""
    absent = [name for name in _UNUSED if not is_there(name.partition(".")[0])]
    for name in absent:
        module = types.ModuleType(name)
        # Others ask whether it is installed, and then look for a spec.
        module.__spec__, module.__path__ = importlib.machinery.ModuleSpec(name, None), []
        for attribute in _UNUSED[name]:
            setattr(module, attribute, type(attribute, (), {}))
        sys.modules[name] = module
    try:
        import streaming
    finally:
        for name in absent:
            del sys.modules[name]
    return streaming
