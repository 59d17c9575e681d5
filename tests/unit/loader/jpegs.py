"""JPEGs of every kind in files with and without indices, for tests of how the loader decodes them."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from PIL import Image as Pillow
from tests.helpers import Surgeon, image_file, picture, sections_of

import headrace as hr
from headrace import _native, ops

if TYPE_CHECKING:
    from pathlib import Path

LEVELS = ["scalar", "sse42", "avx2", "avx512"]
LEVELS = LEVELS[: LEVELS.index(_native.simd_level()) + 1]
NEEDS_DECODER = pytest.mark.skipif("avx2" not in LEVELS, reason="without vector code the window decoder is not used")
NCHW = ops.ToLayout("NCHW")


def with_sampling(data: bytes, sampling: int, width: int, height: int) -> bytes:
    """Let the luma blocks of an MCU stand otherwise; there must be as many MCUs as before.

    Pillow writes neither 4:4:0 nor 4:1:1, but their codes come in the order of 4:2:2 and 4:2:0.
    """
    changed = bytearray(data)
    frame = changed.index(b"\xff\xc0")
    changed[frame + 5 : frame + 9] = height.to_bytes(2, "big") + width.to_bytes(2, "big")
    changed[frame + 11] = sampling
    return bytes(changed)


def noise(seed: int, height: int, width: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


def made(seed: int, height: int = 93, width: int = 131, **options: Any) -> bytes:
    return image_file(picture(seed, height, width), "JPEG", **options)


WINDOWED = {
    "4:4:4": made(1, subsampling=0),
    "4:2:2": made(2, subsampling=1),
    "4:2:0": made(3, subsampling=2),
    "4:4:0": with_sampling(made(4, 61, 180, subsampling=1), 0x12, 91, 125),
    "4:4:0 restarts": with_sampling(made(4, 61, 180, subsampling=1, restart_marker_blocks=5), 0x12, 96, 128),
    "grey": image_file(picture(5, 77, 99)[:, :, 0], "JPEG"),
    "RGB": made(6, keep_rgb=True),
    "restart every MCU": made(7, restart_marker_blocks=1, subsampling=1),
    "restart every 3": made(8, restart_marker_blocks=3),
    "restart every row": made(9, restart_marker_rows=1, subsampling=0),
    "optimised": made(10, optimize=True, quality=95),
    "optimised grey": image_file(picture(11, 64, 64)[:, :, 0], "JPEG", optimize=True, restart_marker_blocks=2),
    "longer": made(12, 70, 400, quality=60),
    "odd": made(13, 33, 49, quality=97, subsampling=1),
    "even": made(14, 96, 128, optimize=True),
} | {
    f"quality {q}": image_file(noise(q, 60, 80), "JPEG", quality=q, subsampling=q % 3) for q in (1, 2, 10, 50, 99, 100)
}
OTHER_KINDS = {
    "progressive": made(20, progressive=True),
    "progressive 4:4:4": made(21, 40, 57, progressive=True, subsampling=0),
    "4:1:1": with_sampling(made(22, 61, 180), 0x41, 380, 32),
}
SIZES = [(1, 1), (1, 40), (40, 1), (2, 2), (5, 3), (9, 7), (17, 16), (8, 33), (40, 5)]
SMALL = {f"{w}x{h} {s}": made(w, h, w, subsampling=s) for h, w in SIZES for s in (0, 1, 2)}
CROPS = {
    "random": [ops.RandomResizedCrop(24, reduced=False), ops.RandomHorizontalFlip(), NCHW],
    "random, small parts": [ops.RandomResizedCrop(16, scale=(0.001, 0.03), ratio=(0.2, 5), interpolation="bilinear")],
    "flip first": [ops.RandomHorizontalFlip(), ops.RandomResizedCrop((9, 31), interpolation="bicubic", reduced=False)],
    "center": [ops.CenterCrop(24, ratio=0.8), ops.Normalize([99, 88, 77], [9, 8, 7], dtype="float16"), NCHW],
    "whole": [ops.Resize((17, 40), interpolation="lanczos")],
}
UNSCALED = {
    "unscaled": [ops.RandomCrop(30)],
    "unscaled, padded": [ops.RandomCrop((28, 31), padding=9, fill=7)],
    "unscaled, larger": [ops.RandomCrop((70, 44), padding=40, fill=7), ops.RandomHorizontalFlip()],
}


def pixels_of(data: bytes) -> np.ndarray:
    return np.asarray(Pillow.open(io.BytesIO(data)).convert("RGB"))


def write(path: Path, files: Any, *, mode: Any = "jpg", **options: Any) -> Path:
    samples = [(file, i) for i, file in enumerate(files)]
    fields = {"image": hr.Image(mode=mode), "label": hr.Int()}
    hr.write(path, samples, fields=fields, page_size=1 << 21, workers=1, **options)
    return path


@dataclass(frozen=True)
class Files:
    """The same pictures as JPEGs with indices, as JPEGs without, and as pixels."""

    indexed: Path
    plain: Path
    raw: Path

    @classmethod
    def make(cls, folder: Path, jpegs: dict[str, bytes]) -> Files:
        return cls(
            write(folder / "indexed.beton", jpegs.values()),
            write(folder / "plain.beton", jpegs.values(), jpeg_index=False),
            write(folder / "raw.beton", [pixels_of(data) for data in jpegs.values()], mode="raw"),
        )


def loader(path: Path, pipeline: list[Any], **options: Any) -> hr.Loader:
    settings: dict[str, Any] = {"order": "random", "seed": 3, "drop_last": False, "workers": 2} | options
    return hr.Loader(path, settings.pop("batch_size", 8), pipelines={"image": pipeline}, **settings)


def counts(loader: hr.Loader) -> dict[str, int]:
    return {name: count for name, count in loader.stats.jpegs.items() if count}


class TileIndex:
    """The ``jpeg_tiles`` section of a file under the knife."""

    def __init__(self, path: Path, count: int) -> None:
        self.surgeon = Surgeon(path)
        self.start, self.size = sections_of(path)["jpeg_tiles"]
        self.count = count
        self.first = self.start + 8 + 8 * (count + 1)  # byte of the packed indices

    @property
    def offsets(self) -> np.ndarray:
        return np.frombuffer(self.surgeon.data, "<u8", self.count + 1, self.start + 8).copy()

    def set_offsets(self, offsets: Any) -> None:
        self.surgeon.put(self.start + 8, np.asarray(offsets, "<u8").tobytes())

    def entry(self, i: int) -> bytes:
        first, end = self.offsets[i : i + 2].tolist()
        return bytes(self.surgeon.data[self.first + first : self.first + end])

    def set_entries(self, entries: list[bytes]) -> None:
        assert sum(map(len, entries)) == self.size - (self.first - self.start)
        self.set_offsets([0, *np.cumsum([len(entry) for entry in entries])])
        self.surgeon.put(self.first, b"".join(entries))

    def save(self, target: Path) -> Path:
        return self.surgeon.save(target)
