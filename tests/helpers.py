"""Tools for tests: pictures in many encodings, surgery on .beton files, datasets with a temper.

Classes and functions that travel to other processes live here, where a child can import them.
"""

from __future__ import annotations

import hashlib
import io
import os
import signal
import struct
import time
import zlib
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from PIL import Image as Pillow

import headrace as hr

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

MIB = 1 << 20
HEADER = struct.Struct("<HHIQQ")
DESCRIPTOR_SIZE = 1041
ROW = struct.Struct("<QQQ")


# -- folders -------------------------------------------------------------------------------------------------


def write_folder(root: Path, files: Mapping[str, bytes]) -> Path:
    """Files in folders, and folders with nothing in them."""
    for name, data in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(data)
    (root / "empty" / "deep").mkdir(parents=True)
    return root


# -- pictures ------------------------------------------------------------------------------------------------


def picture(seed: int, height: int, width: int) -> np.ndarray:
    """A photo-like picture: smooth colour, an edge, mild noise."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0:height, 0:width].astype(float)
    waves = [np.cos(y * rng.uniform(0, 0.2) + x * rng.uniform(0, 0.2) + c) for c in range(3)]
    pixels = 128 + 80 * np.stack(waves, axis=2) + rng.normal(0, 4, (height, width, 1))
    pixels[: height // 3, : width // 2] += 40
    return np.clip(pixels, 0, 255).astype(np.uint8)


def image_file(image: np.ndarray | Pillow.Image, kind: str, **options: Any) -> bytes:
    """A picture as the bytes of a file that Pillow writes."""
    out = io.BytesIO()
    (image if isinstance(image, Pillow.Image) else Pillow.fromarray(image)).save(out, kind, **options)
    return out.getvalue()


def png_by_hand(pixels: np.ndarray, color_type: int) -> bytes:
    """A PNG of 8 or 16 bits a channel; Pillow cannot write 16-bit RGB."""
    height, width = pixels.shape[:2]
    depth = 8 * pixels.dtype.itemsize
    big_endian = pixels.astype(f">u{pixels.dtype.itemsize}")
    rows = b"".join(b"\0" + big_endian[y].tobytes() for y in range(height))

    def piece(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    head = struct.pack(">IIBBBBB", width, height, depth, color_type, 0, 0, 0)
    pieces = piece(b"IHDR", head) + piece(b"IDAT", zlib.compress(rows)) + piece(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + pieces


def patch_jpeg_frame(data: bytes, **changes: int) -> bytes:
    """Change precision, height or width in the frame header of a baseline JPEG."""
    frame = struct.Struct(">BHH")
    at = data.index(b"\xff\xc0") + 4
    facts = dict(zip(("precision", "height", "width"), frame.unpack_from(data, at), strict=True)) | changes
    return data[:at] + frame.pack(*facts.values()) + data[at + frame.size :]


# -- the pictures behind the golden files: the same arithmetic as tests/golden/beton/make_golden.py ---------


def golden_rng(seed: int, *key: str) -> np.random.Generator:
    digest = hashlib.sha256(repr((seed, *key)).encode()).digest()
    return np.random.Generator(np.random.PCG64(int.from_bytes(digest[:8], "little")))


def golden_photo(rng: np.random.Generator, h: int, w: int) -> np.ndarray:
    y, x = np.mgrid[0:h, 0:w].astype(np.float64)
    img = np.zeros((h, w, 3))
    for c in range(3):
        for _ in range(5):
            fy, fx = rng.uniform(-6, 6, 2) / max(h, w)
            img[..., c] += rng.uniform(10, 45) * np.cos(2 * np.pi * (fy * y + fx * x) + rng.uniform(0, 6.3))
    for _ in range(4):
        cy, cx, r = rng.uniform(0, h), rng.uniform(0, w), rng.uniform(0.05, 0.3) * max(h, w)
        img[(y - cy) ** 2 + (x - cx) ** 2 < r * r] += rng.uniform(-70, 70, 3)
    img += 128 + rng.normal(0, 4, (h, w, 1))
    return np.clip(np.rint(img), 0, 255).astype(np.uint8)


# -- .beton files under the knife ---------------------------------------------------------------------------


class Surgeon:
    """Reads a .beton with nothing but struct, changes single numbers, and writes it back on ``save``."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.data = bytearray(path.read_bytes())

    @property
    def header(self) -> dict[str, int]:
        names = ("version", "num_fields", "page_size", "num_samples", "alloc_table_ptr")
        return dict(zip(names, HEADER.unpack_from(self.data), strict=True))

    def set_header(self, **changes: int) -> Self:
        HEADER.pack_into(self.data, 0, *(self.header | changes).values())
        return self

    @property
    def metadata_start(self) -> int:
        return HEADER.size + DESCRIPTOR_SIZE * self.header["num_fields"]

    @property
    def table(self) -> np.ndarray:
        """Rows of sample_id, ptr, size."""
        return np.frombuffer(self.data, "<u8", offset=self.header["alloc_table_ptr"]).reshape(-1, 3).copy()

    def set_row(self, row: int, **changes: int) -> Self:
        at = self.header["alloc_table_ptr"] + row * ROW.size
        names = ("sample_id", "ptr", "size")
        facts = dict(zip(names, ROW.unpack_from(self.data, at), strict=True)) | changes
        ROW.pack_into(self.data, at, *facts.values())
        return self

    def put(self, offset: int, data: bytes) -> Self:
        self.data[offset : offset + len(data)] = data
        return self

    def flip(self, offset: int, mask: int = 0x01) -> Self:
        self.data[offset] ^= mask
        return self

    def save(self, path: Path | None = None) -> Path:
        """Write it to a new file: the old one may still be mapped."""
        target = path or self.path.with_name(f"changed-{self.path.name}")
        target.write_bytes(self.data)
        return target


def sections_of(path: Path) -> dict[str, tuple[int, int]]:
    """First byte and size in the file of each annex section, and of ``directory`` and ``trailer``."""
    surgeon = Surgeon(path)
    end = surgeon.header["alloc_table_ptr"]
    trailer = bytes(surgeon.data[end - 64 : end])
    count, size = struct.unpack_from("<IQ", trailer, 12)
    start, directory = end - size, end - 64 - 40 * count
    found = {"directory": (directory, 40 * count), "trailer": (end - 64, 64)}
    for k in range(count):
        name, offset, length, _, _ = struct.unpack_from("<16sQQII", surgeon.data, directory + 40 * k)
        found[name.rstrip(b"\0").decode()] = (start + offset, length)
    return found


ALL_FIELDS: dict[str, Any] = {
    "label": hr.Int(),
    "raw": hr.Image(mode="raw"),
    "score": hr.Float(),
    "jpg": hr.Image(mode="jpg"),
    "blob": hr.Bytes(),
    "doc": hr.Json(),
    "text": hr.Text(),
    "array": hr.NDArray("<f4", (2, 3)),
    "tensor": hr.Tensor("int64", (5,)),
}


def all_fields_sample(i: int) -> tuple[Any, ...]:
    """A sample of every field, different for each i."""
    rng = np.random.default_rng(i)
    return (
        i - 3,
        picture(i, 4 + i % 5, 7),
        i / 3,
        image_file(picture(i, 16, 9 + i % 4), "JPEG", quality=90),
        rng.bytes(17 * (i % 4)),
        {"i": i, "ü": [None, True, i / 7]},
        "täxt" * (i % 3),
        rng.normal(size=(2, 3)).astype("<f4"),
        rng.integers(-9, 9, 5),
    )


def write_all_fields(path: Path, count: int = 11, **options: Any) -> list[tuple[Any, ...]]:
    """Write samples of every field and give them back."""
    samples = [all_fields_sample(i) for i in range(count)]
    hr.write(path, samples, fields=ALL_FIELDS, page_size=options.pop("page_size", 2 * MIB), **options)
    return samples


def same_value(found: Any, given: Any) -> bool:
    """Equal, whatever the type; JPEG bytes are compared by their pixels."""
    if isinstance(found, np.ndarray):
        if isinstance(given, bytes):
            given = np.asarray(Pillow.open(io.BytesIO(given)).convert("RGB"))
            return bool(found.shape == given.shape and np.abs(found.astype(int) - given.astype(int)).max() <= 3)
        return bool(np.array_equal(found, given))
    return bool(found == given)


# -- datasets and workers -----------------------------------------------------------------------------------


class Indexable:
    """A dataset class of a user's own: length, item, nothing else."""

    def __init__(self, samples: list[Any]) -> None:
        self.samples = samples

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, i: int) -> Any:
        return self.samples[i]


class Failing:
    """Raises at one index."""

    def __init__(self, length: int, bad: int) -> None:
        self.length, self.bad = length, bad

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, i: int) -> tuple[int, bytes]:
        if i == self.bad:
            raise ZeroDivisionError(f"no sample at {i}")
        return i, bytes(1000)


class Killed(Failing):
    """The worker that fetches one index is killed."""

    def __getitem__(self, i: int) -> tuple[int, bytes]:
        if i == self.bad:
            os.kill(os.getpid(), signal.SIGKILL)
        return i, bytes(1000)


class Slow:
    """Takes its time for every sample."""

    def __init__(self, length: int, seconds: float) -> None:
        self.length, self.seconds = length, seconds

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, i: int) -> tuple[int, bytes]:
        time.sleep(self.seconds)
        return i, bytes(10)


def labels_of(dataset: Any) -> list[int]:
    """Read every sample's label; for threads and processes."""
    return [sample.label for sample in dataset]
