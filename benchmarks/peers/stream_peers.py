"""Epochs of photographs from an S3 server by other packages: ``python -m benchmarks.peers.stream_peers WORK FACTS``.

WORK is ``write`` or ``read``, FACTS is JSON: the peer's name, where its files are, how the server is reached, and an
empty folder for the peer's cache. ``read`` prints the seconds of one epoch, from the making of the loader to the last
batch, and how many photographs there were. All peers shuffle, keep JPEGs as bytes, crop by the same function with
Pillow, and run in one process of a DataLoader.
"""

from __future__ import annotations

import json
import os
import sys
import time
import types
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.suites.format_photos import BATCH, SIDE
from headrace.bench.peers.pillow_crop import PillowCrop

if TYPE_CHECKING:
    from collections.abc import Iterable

SHARD_BYTES = 64 << 20
SHUFFLED = 1000


def _photographs(facts: dict[str, Any]) -> list[Path]:
    found = [Path(name) for name in facts["photographs"]]
    return found * facts["copies"]


def _batches(dataset: Any, loader_class: Any = None) -> Iterable[Any]:
    from torch.utils.data import DataLoader

    return (loader_class or DataLoader)(dataset, batch_size=BATCH, num_workers=1)


# webdataset: tars, by the command that its documentation names for HTTP


def write_webdataset(facts: dict[str, Any]) -> None:
    import webdataset

    with webdataset.ShardWriter(f"{facts['folder']}/%06d.tar", maxsize=SHARD_BYTES, verbose=0) as writer:
        for number, path in enumerate(_photographs(facts)):
            writer.write({"__key__": f"{number:08d}", "jpg": path.read_bytes(), "cls": number % 10})


def read_webdataset(facts: dict[str, Any]) -> Iterable[Any]:
    import obstore
    import webdataset

    names = sorted(path.name for path in Path(facts["folder"]).glob("*.tar"))
    crop = PillowCrop(SIDE)
    urls = [f"pipe:curl -s -L '{_signed(obstore, facts, name)}'" for name in names]
    shards = webdataset.WebDataset(urls, shardshuffle=len(urls)).shuffle(SHUFFLED).to_tuple("jpg")
    return _unbatched(shards.map(lambda sample: crop(sample[0])).batched(BATCH, collation_fn=np.stack))


def _unbatched(dataset: Any) -> Iterable[Any]:
    from torch.utils.data import DataLoader

    return DataLoader(dataset, batch_size=None, num_workers=1)


def _signed(obstore: Any, facts: dict[str, Any], name: str) -> str:
    from datetime import timedelta

    from obstore.store import S3Store

    reached = {**facts["store"], "client_options": {"allow_http": True}}
    store = S3Store(facts["bucket"], region="us-east-1", **reached)
    return str(obstore.sign(store, "GET", f"{facts['prefix']}/{name}", timedelta(hours=1)))


# LitData


def write_litdata(facts: dict[str, Any]) -> None:
    from litdata.streaming.writer import BinaryWriter

    writer = BinaryWriter(facts["folder"], chunk_bytes=SHARD_BYTES)
    for number, path in enumerate(_photographs(facts)):
        writer[number] = {"image": path.read_bytes(), "label": number % 10}
    writer.done()
    writer.merge(1)


def read_litdata(facts: dict[str, Any]) -> Iterable[Any]:
    import litdata
    from litdata.streaming import downloader
    from litdata.streaming.resolver import Dir

    downloader._OBSTORE_CLIENT_OPTIONS["allow_http"] = True  # there is no other way to say it

    class Photographs(litdata.StreamingDataset):
        def __getitem__(self, index: Any) -> Any:
            return crop(super().__getitem__(index)["image"])

    crop = PillowCrop(SIDE)
    store = facts["store"]
    reached = {
        "endpoint_url": store["endpoint"],
        "aws_access_key_id": store["access_key_id"],
        "aws_secret_access_key": store["secret_access_key"],
        "region_name": "us-east-1",
    }
    place = Dir(path=facts["cache"], url=f"s3://{facts['bucket']}/{facts['prefix']}")
    dataset = Photographs(place, shuffle=True, drop_last=False, storage_options=reached, max_cache_size="20GB")
    return _batches(dataset, litdata.StreamingDataLoader)


# MosaicML Streaming


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
"""What the package imports, and only uses in datasets of texts and of pictures as tensors."""


def _streaming() -> Any:
    for name, attributes in _UNUSED.items():
        module = types.ModuleType(name)
        for attribute in attributes:
            setattr(module, attribute, type(attribute, (), {}))
        sys.modules[name] = module
    import streaming

    for name in _UNUSED:
        del sys.modules[name]
    return streaming


def write_mosaicml(facts: dict[str, Any]) -> None:
    with _streaming().MDSWriter(
        out=facts["folder"], columns={"image": "bytes", "label": "int"}, size_limit=SHARD_BYTES
    ) as writer:
        for number, path in enumerate(_photographs(facts)):
            writer.write({"image": path.read_bytes(), "label": number % 10})


def read_mosaicml(facts: dict[str, Any]) -> Iterable[Any]:
    store = facts["store"]
    os.environ["S3_ENDPOINT_URL"] = store["endpoint"]
    os.environ["AWS_ACCESS_KEY_ID"] = store["access_key_id"]
    os.environ["AWS_SECRET_ACCESS_KEY"] = store["secret_access_key"]
    os.environ["AWS_DEFAULT_REGION"] = "us-east-1"
    streaming = _streaming()
    streaming.base.util.clean_stale_shared_memory()

    class Photographs(streaming.StreamingDataset):
        def __getitem__(self, index: Any) -> Any:
            return crop(super().__getitem__(index)["image"])

    crop = PillowCrop(SIDE)
    remote = f"s3://{facts['bucket']}/{facts['prefix']}"
    dataset = Photographs(remote=remote, local=facts["cache"], shuffle=True, batch_size=BATCH)
    return _batches(dataset)


def main() -> None:
    facts = json.loads(sys.argv[2])
    work = globals()[f"{sys.argv[1]}_{facts['peer']}"]
    if sys.argv[1] == "write":
        work(facts)
        return
    start_s, photographs = time.perf_counter(), 0
    for batch in work(facts):
        images = batch[0] if isinstance(batch, list | tuple) else batch
        assert images.shape[1:] == (3, SIDE, SIDE)
        photographs += len(images)
    print(json.dumps({"seconds": time.perf_counter() - start_s, "photographs": photographs}))


if __name__ == "__main__":
    main()
