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

import io
import statistics
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import headrace as hr
from benchmarks.format_files import FormatFile, left_out, make_files, ratios, take_turns
from benchmarks.harness import ROOT, cores, one_core, photographs, ratio, row
from headrace import ops

if TYPE_CHECKING:
    from collections.abc import Callable

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

    rng = np.random.default_rng(0)

    def crop(sample: tuple[bytes, ...]) -> tuple[np.ndarray]:
        return (_cropped(sample[0], rng),)

    source = webdataset.WebDataset(paths, shardshuffle=False).to_tuple("jpg;jpeg").map(crop).batched(BATCH)
    loader = DataLoader(source, batch_size=None, num_workers=processes, persistent_workers=True)

    def epoch(_: int) -> None:
        for batch in loader:
            assert batch[0].shape[1:] == (3, SIDE, SIDE)

    return epoch


def _cropped(data: bytes, rng: np.random.Generator) -> np.ndarray:
    """RandomResizedCrop as torchvision draws it, by Pillow."""
    import PIL.Image

    picture = PIL.Image.open(io.BytesIO(data))
    width, height = picture.size
    for _ in range(10):
        area = width * height * rng.uniform(0.08, 1.0)
        aspect = np.exp(rng.uniform(np.log(3 / 4), np.log(4 / 3)))
        w, h = round((area * aspect) ** 0.5), round((area / aspect) ** 0.5)
        if 0 < w <= width and 0 < h <= height:
            left, top = rng.integers(0, width - w + 1), rng.integers(0, height - h + 1)
            break
    else:
        left, top, w, h = 0, 0, width, height
    picture.draft("RGB", (-(-width * SIDE // w), -(-height * SIDE // h)))
    scale_x, scale_y = picture.size[0] / width, picture.size[1] / height
    box = (left * scale_x, top * scale_y, (left + w) * scale_x, (top + h) * scale_y)
    rgb = picture if picture.mode == "RGB" else picture.convert("RGB")
    resized = rgb.resize((SIDE, SIDE), PIL.Image.Resampling.BILINEAR, box=box, reducing_gap=2.0)
    return np.ascontiguousarray(np.asarray(resized).transpose(2, 0, 1))
