"""The same photographs as JPEG in every format, cropped at random to 224 pixels by the Loader on one core.

Every format has its tile indices where it has an annex; photographs and labels go in as they are. The rates are
compared with that of `.beton` in the same run; the contenders take turns, an epoch each.

The peer is the webdataset package on the very tar that headrace has written: pictures decoded by Pillow, cropped and
resized by Pillow to the same size, collected by torch's DataLoader with one process, on the same core. Where there is
no torch, batches are made in the process itself, which saves the peer the way between two processes.
"""

from __future__ import annotations

import statistics
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import headrace as hr
from benchmarks.format_files import FormatFile, left_out, make_files, ratios, take_turns
from benchmarks.harness import ROOT, one_core, photographs, ratio
from headrace import ops

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

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
        peer = _webdataset(next((file for file in files if file.name == "tar"), None))
        if peer is not None:
            contenders[peer[0]] = peer[1]
        seconds = take_turns(contenders, lambda turn: [turn], ROUNDS)
        rows = ratios("crops", seconds, "beton", samples=len(samples))
    if peer is not None:
        pairs = sorted(b / a for a, b in zip(seconds["tar"], seconds[peer[0]], strict=True))
        rows.append(ratio("crops: tar", statistics.median(pairs), f"the rate of {peer[0]}"))
    return [*rows, *left_out(reasons)]


def _epochs(file: FormatFile) -> Callable[[int], object]:
    """What runs one epoch."""
    dataset = file.open()
    image = file.field(("image",))
    pipeline = [ops.RandomResizedCrop(SIDE), ops.ToLayout("NCHW")]
    loader = hr.Loader(dataset, BATCH, order="random", workers=1, drop_last=False, pipelines={image: pipeline})

    def epoch(_: int) -> None:
        for batch in loader:
            assert batch[image].shape[1:] == (3, SIDE, SIDE)

    return epoch


# The peer


def _webdataset(file: FormatFile | None) -> tuple[str, Callable[[int], object]] | None:
    try:
        import webdataset
    except ImportError:
        return None
    if file is None:
        return None
    rng = np.random.default_rng(0)

    def crop(sample: tuple[Any, ...]) -> np.ndarray:
        return _cropped(sample[0], rng)

    source = webdataset.WebDataset(str(file.path), shardshuffle=False).decode("pil").to_tuple("jpg;jpeg").map(crop)
    try:
        from torch.utils.data import DataLoader
    except ImportError:
        return "webdataset + Pillow, without torch", lambda _: [None for _ in _batches(iter(source))]
    loader = DataLoader(source.batched(BATCH), batch_size=None, num_workers=1, persistent_workers=True)
    return "webdataset + torch DataLoader + Pillow", lambda _: [None for _ in loader]


def _batches(pictures: Iterator[np.ndarray]) -> Iterator[np.ndarray]:
    batch: list[np.ndarray] = []
    for picture in pictures:
        batch.append(picture)
        if len(batch) == BATCH:
            yield np.stack(batch)
            batch = []
    if batch:
        yield np.stack(batch)


def _cropped(picture: Any, rng: np.random.Generator) -> np.ndarray:
    """RandomResizedCrop as torchvision draws it, by Pillow."""
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
    resized = picture.convert("RGB").resize((SIDE, SIDE), 2, box=(left, top, left + w, top + h))
    return np.ascontiguousarray(np.asarray(resized).transpose(2, 0, 1))
