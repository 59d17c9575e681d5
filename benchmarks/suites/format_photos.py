"""The same photographs as JPEG in every format, cropped at random to 224 pixels by the Loader on one core.

Every format has its tile indices where it has an annex; photographs and labels go in as they are. The rates are
compared with that of `.beton` in the same run; the contenders take turns, an epoch each.

The peer is the webdataset package with torch's DataLoader and Pillow on the very tars that headrace has written, as
fast as these are documented to be: JPEGs reach Pillow as bytes, which decodes them at a half, a quarter or an eighth
(`draft`) where the crop stays large enough, and resizes only the crop, in two steps (`box`, `reducing_gap`). Both sides
make the same batches, uint8 as NCHW: one process of the DataLoader against one thread of the Loader on one core, and
two against two on two cores, where there are two; there are two tars, for webdataset gives each process its own. The
tars have their tile indices, which webdataset does not read. Without torch there is no peer.
"""

from __future__ import annotations

import statistics
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import headrace as hr
from benchmarks.format_files import left_out, ratios
from benchmarks.harness import ROOT, photographs, ratio, row
from headrace import ops
from headrace.bench.format_files import FormatFile, make_files
from headrace.bench.peers.pillow_crop import PillowCrop
from headrace.bench.turns import cores, one_core, take_turns

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np

QUESTION = "How many photographs a second does the Loader crop from each format, beside .beton?"
BATCH, SIDE, ROUNDS = 64, 224, 5
FIELDS = ({"image": hr.Image(), "label": hr.Int()}, {"image": hr.Image()})


def run() -> list[dict[str, Any]]:
    folder = ROOT / "build"
    folder.mkdir(exist_ok=True)
    samples = [(path.read_bytes(), i % 10) for i, path in enumerate(photographs())]
    with tempfile.TemporaryDirectory(dir=folder) as name, one_core():
        files, reasons = make_files(Path(name), samples, FIELDS, decode="image")
        contenders = {file.name: _epochs(file) for file in files}
        seconds = take_turns(contenders, lambda turn: [turn], ROUNDS)
        rows = ratios("crops", seconds, "beton", samples=len(samples))
    return [*rows, *_beside_webdataset(samples), *left_out(reasons)]


def _epochs(file: FormatFile) -> Callable[[int], object]:
    """What runs one epoch."""
    return _crops(file.open(), file.field(("image",)), 1)


def _crops(dataset: Any, image: str, workers: int) -> Callable[[int], object]:
    pipeline = [ops.RandomResizedCrop(SIDE), ops.ToLayout("NCHW")]
    loader = hr.Loader(dataset, BATCH, order="random", workers=workers, drop_last=False, pipelines={image: pipeline})

    def epoch(_: int) -> None:
        for batch in loader:
            assert batch[image].shape[1:] == (3, SIDE, SIDE)

    return epoch


# The peer

PEER = "webdataset + torch DataLoader + Pillow"


def _beside_webdataset(samples: list[tuple[bytes, int]]) -> list[dict[str, Any]]:
    try:
        import torch.utils.data  # noqa: F401
        import webdataset  # noqa: F401
    except ImportError as error:
        return [{"what": f"{PEER}: left out", "text": f"{error.name} is not installed"}]
    rows = []
    with tempfile.TemporaryDirectory(dir=ROOT / "build") as name:
        shards = str(Path(name, "x-%06d.tar"))
        hr.write(shards, samples, fields=FIELDS[0], shard_samples=-(-len(samples) // 2))
        paths = sorted(map(str, Path(name).glob("*.tar")))
        for path in paths:
            hr.index(path)
        for processes in (1, 2):
            with cores(processes) as taken:
                if taken == processes:
                    rows += _pair(paths, processes, len(samples))
    return rows


def _pair(paths: list[str], processes: int, samples: int) -> list[dict[str, Any]]:
    """The Loader and the peer with the same number of processes, in turns."""
    dataset = hr.open(paths)
    image = next(name for name, field in dataset.schema.items() if field.kind == "image")
    contenders = {"tar": _crops(dataset, image, processes), PEER: _webdataset(paths, processes)}
    seconds = take_turns(contenders, lambda turn: [turn], ROUNDS)
    what = "crops" if processes == 1 else f"crops, {processes} processes on {processes} cores"
    rows = [row(f"{what}: {PEER}", seconds[PEER], samples=samples)]
    if processes > 1:
        rows.append(row(f"{what}: tar", seconds["tar"], samples=samples))
    pairs = sorted(b / a for a, b in zip(seconds["tar"], seconds[PEER], strict=True))
    return [*rows, ratio(f"{what}: tar", statistics.median(pairs), f"the rate of {PEER}")]


def _webdataset(paths: list[str], processes: int) -> Callable[[int], object]:
    import webdataset
    from torch.utils.data import DataLoader

    cropped = PillowCrop(SIDE)

    def crop(sample: tuple[bytes, ...]) -> tuple[np.ndarray]:
        return (cropped(sample[0]),)

    source = webdataset.WebDataset(paths, shardshuffle=False).to_tuple("jpg;jpeg").map(crop).batched(BATCH)
    loader = DataLoader(source, batch_size=None, num_workers=processes, persistent_workers=True)

    def epoch(_: int) -> None:
        for batch in loader:
            assert batch[0].shape[1:] == (3, SIDE, SIDE)

    return epoch
