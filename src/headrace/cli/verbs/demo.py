"""``headrace demo``: the main job from nothing, with a table of what it cost."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

import headrace
from headrace import ops
from headrace.bench.pictures import photo
from headrace.cli.common import progress_bar, say, whole_number_from
from headrace.codecs import jpeg
from headrace.errors import CorruptSampleError
from headrace.formats.beton import BetonDataset
from headrace.progress import format_bytes, format_count

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from headrace.types import Dataset

HELP = "make pictures, pack, verify and load them, train a small model"
DESCRIPTION = """\
Make a few thousand photo-like pictures, pack them in two ways, verify them, read them back in several ways, train a
small classifier on random crops through the loader, damage one byte and find it again; then print a table of sizes and
rates. Needs no download; takes about ten seconds on two cores."""
EXAMPLES = """\
examples:
  headrace demo
  headrace demo --count 500 --keep demo-data"""
_SIDE, _BATCH, _EPOCHS, _RATE = 32, 64, 3, 1e-3
_CLASSES = ("lake", "forest", "meadow", "dune", "harbour", "orchard", "canyon", "glacier")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the verb takes."""
    parser.add_argument(
        "--count",
        type=whole_number_from(1, 10_000_000),
        default=2000,
        metavar="N",
        help="how many pictures (default: 2000)",
    )
    parser.add_argument("--keep", metavar="DIR", help="leave the data in this new folder instead of deleting them")
    parser.add_argument("-q", "--quiet", action="store_true", help="no progress bars")


def run(args: argparse.Namespace) -> int:
    """Run the demo in a folder of its own."""
    if args.keep and os.path.exists(args.keep):
        raise FileExistsError(f"{args.keep} exists; name a folder that does not")
    if args.keep:
        os.makedirs(args.keep)
    folder = args.keep or tempfile.mkdtemp(prefix="headrace-demo-")
    try:
        _Demo(folder, args).run()
    finally:
        if not args.keep:
            shutil.rmtree(folder)
    return 0


@dataclass(frozen=True, slots=True)
class _Row:
    what: str
    samples: int
    size_bytes: int
    seconds: float

    def __str__(self) -> str:
        rate, speed = self.samples / self.seconds, format_bytes(self.size_bytes / self.seconds)
        size = format_bytes(self.size_bytes)
        return f"  {self.what:<44} {self.samples:>7,} {size:>9} {self.seconds:>7.2f} s {rate:>11,.0f}/s {speed:>9}/s"


class _Demo:
    def __init__(self, folder: str, args: argparse.Namespace) -> None:
        self._pictures = os.path.join(folder, "pictures")
        self._jpg = os.path.join(folder, "pictures.beton")
        self._raw = os.path.join(folder, "pictures-raw.beton")
        self._args = args
        self._trained = ""

    def run(self) -> None:
        print(f"{'':<46} {'samples':>7} {'size':>9} {'time':>9} {'samples':>13} {'bytes':>11}", flush=True)
        self._timed("make pictures (JPEG files in folders)", self._make_pictures)
        self._timed("pack as they are, with checksums", self._pack_jpg)
        self._timed("pack as raw pixels, longer side 160", self._pack_raw)
        self._timed("verify: every checksum", lambda: self._verify(self._jpg, decode=False))
        self._timed("verify: every checksum, decode everything", lambda: self._verify(self._jpg, decode=True))
        dataset, raw = headrace.open(self._jpg), BetonDataset(self._raw)
        self._timed("read stored bytes, random batches of 256", lambda: _read_batches(dataset))
        self._timed("read and decode, one by one, in order", lambda: _decode_all(dataset))
        self._timed("look at raw pixels without copying", lambda: _view_all(raw))
        self._timed("train on random crops, three epochs", self._train)
        cores = len(os.sched_getaffinity(0))
        print(
            f"\nOn {format_count(cores, 'core')}. "
            "The packed file holds every JPEG byte for byte, its name, class and checksums."
        )
        print(self._trained)
        self._find_damage()

    def _timed(self, what: str, work: Callable[[], tuple[int, int]]) -> None:
        start_s = time.perf_counter()
        samples, size_bytes = work()
        print(_Row(what, samples, size_bytes, max(time.perf_counter() - start_s, 1e-9)), flush=True)

    def _make_pictures(self) -> tuple[int, int]:
        for name in _CLASSES:
            os.makedirs(os.path.join(self._pictures, name))
        size_bytes = 0
        threads = len(os.sched_getaffinity(0))
        with ThreadPoolExecutor(threads) as pool, progress_bar("making pictures", self._args) as bar:
            for done, size in enumerate(pool.map(self._make_picture, range(self._args.count)), 1):
                size_bytes += size
                if bar is not None:
                    bar(done, self._args.count, size_bytes)
        return self._args.count, size_bytes

    def _make_picture(self, number: int) -> int:
        label = number % len(_CLASSES)
        tint = 60 * np.cos(2 * np.pi * (label / len(_CLASSES) + np.arange(3) / 3))  # what the model can learn
        pixels = np.clip(photo(number) + tint.astype(np.int16), 0, 255).astype(np.uint8)
        data = jpeg.encode(pixels, quality=92)
        name = os.path.join(self._pictures, _CLASSES[label], f"{number:06d}.jpg")
        with open(name, "wb") as file:
            file.write(data)
        return len(data)

    def _pack_jpg(self) -> tuple[int, int]:
        with progress_bar("packing", self._args) as bar:
            headrace.pack(self._jpg, self._pictures, progress=bar or False)
        return self._args.count, os.path.getsize(self._jpg)

    def _pack_raw(self) -> tuple[int, int]:
        image = headrace.Image(mode="raw", max_side=160)
        with progress_bar("packing raw", self._args) as bar:
            headrace.pack(self._raw, self._pictures, image=image, progress=bar or False)
        return self._args.count, os.path.getsize(self._raw)

    def _verify(self, path: str, *, decode: bool) -> tuple[int, int]:
        with progress_bar("verifying", self._args) as bar:
            report = headrace.verify(path, decode=decode, progress=bar)
        if not report.ok:
            raise RuntimeError(f"the demo's own file is damaged: {report.problems[:3]}")
        return report.samples_checked, report.size_bytes

    def _train(self) -> tuple[int, int]:
        crop = [ops.RandomResizedCrop(_SIDE), ops.RandomHorizontalFlip(), ops.Normalize([128] * 3, [64] * 3)]
        batch_size = min(_BATCH, self._args.count)
        loader = headrace.Loader(self._jpg, batch_size, order="quasi_random", pipelines={"image": crop})
        model = _Classifier(3 * _SIDE * _SIDE, len(_CLASSES))
        samples = size_bytes = 0
        shares = []
        for _ in range(_EPOCHS):
            right = [model.step(images.reshape(len(images), -1), labels) for images, labels in loader]
            shares.append(np.mean(right))
            samples += len(loader) * batch_size
            size_bytes += len(loader) * batch_size * 3 * _SIDE * _SIDE * 4
        told = ", ".join(f"{share:.0%}" for share in shares)
        self._trained = (
            f"\nTraining: right before each step, on average over an epoch: {told} ({1 / len(_CLASSES):.0%} is chance)."
        )
        return samples, size_bytes

    def _find_damage(self) -> None:
        dataset = BetonDataset(self._jpg)
        victim = len(dataset) // 2
        with open(self._jpg, "r+b") as file:
            position = int(dataset.image_facts("image")["data_ptr"][victim]) + 1000
            file.seek(position)
            byte = file.read(1)[0]
            file.seek(position)
            file.write(bytes([byte ^ 0x10]))
        report = headrace.verify(self._jpg)
        print(f"\nOne bit of sample {victim} was flipped; verify says bad samples: {list(report.bad_samples)}")
        try:
            _ = headrace.open(self._jpg)[victim]
        except CorruptSampleError as error:
            say(f"Reading it says: {error}")


class _Classifier:
    """Softmax regression on pixels, by plain gradient descent."""

    def __init__(self, inputs: int, classes: int) -> None:
        self._weights = np.zeros((inputs, classes), np.float32)
        self._classes = classes

    def step(self, inputs: npt.NDArray[np.float32], labels: npt.NDArray[np.int64]) -> float:
        """Learn from a batch; gives the share of it that was right before."""
        scores = inputs @ self._weights
        chances = np.exp(scores - scores.max(axis=1, keepdims=True))
        chances /= chances.sum(axis=1, keepdims=True)
        share_right = float((scores.argmax(axis=1) == labels).mean())
        chances[np.arange(len(labels)), labels] -= 1
        self._weights -= _RATE / len(labels) * (inputs.T @ chances)
        return share_right


def _read_batches(dataset: Dataset) -> tuple[int, int]:
    order = np.random.default_rng(0).permutation(len(dataset))
    size_bytes = 0
    for start in range(0, len(order), 256):
        size_bytes += sum(map(len, dataset.read_bytes(order[start : start + 256], "image")))
    return len(order), size_bytes


def _decode_all(dataset: Dataset) -> tuple[int, int]:
    return len(dataset), sum(sample.image.nbytes for sample in dataset)


def _view_all(dataset: BetonDataset) -> tuple[int, int]:
    return len(dataset), sum(dataset.view(i, "image").nbytes for i in range(len(dataset)))
