"""Landscapes that a program has drawn: a dataset that is good to look at, for tests and pictures of the docs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from PIL import Image as Pillow
from PIL import ImageDraw, ImageFilter

import headrace as hr

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["CLASSES", "scene", "write_scenes"]

CLASSES = ("city", "desert", "forest", "lake", "mountain", "night", "sea")
_SKIES = {
    "city": ((236, 183, 160), (122, 138, 183)),
    "desert": ((250, 214, 165), (120, 175, 214)),
    "forest": ((214, 230, 222), (142, 186, 205)),
    "lake": ((226, 232, 240), (120, 160, 205)),
    "mountain": ((253, 222, 196), (110, 140, 196)),
    "night": ((60, 66, 120), (10, 14, 40)),
    "sea": ((250, 226, 196), (88, 156, 200)),
}
_GROUNDS = {
    "city": (52, 54, 78),
    "desert": (214, 160, 98),
    "forest": (42, 84, 62),
    "lake": (70, 112, 118),
    "mountain": (84, 96, 128),
    "night": (18, 24, 48),
    "sea": (32, 106, 138),
}


def scene(kind: str, seed: int) -> Pillow.Image:
    """One landscape; the same numbers give the same picture."""
    rng = np.random.default_rng(seed)
    width, height = [(500, 375), (375, 500), (500, 333), (640, 427), (480, 480)][
        rng.choice(5, p=[0.5, 0.15, 0.2, 0.1, 0.05])
    ]
    low, high = (np.array(one, float) + rng.normal(0, 8, 3) for one in _SKIES[kind])
    share = np.linspace(1, 0, height)[:, None, None]
    pixels = np.broadcast_to(low + (high - low) * share, (height, width, 3))
    picture = Pillow.fromarray(np.clip(pixels, 0, 255).astype(np.uint8))
    draw = ImageDraw.Draw(picture)
    _sun(draw, kind, width, height, rng)
    ground, horizon = np.array(_GROUNDS[kind], float), height * rng.uniform(0.45, 0.62)
    for layer in range(4):
        near = layer / 3
        color = tuple(
            int(c)
            for c in np.clip(low * (1 - near) * 0.75 + ground * (0.35 + 0.65 * near) + rng.normal(0, 4, 3), 0, 255)
        )
        _layer(draw, kind, width, height, horizon + layer * height * 0.11, color, rng)
    noise = rng.normal(0, 3, (height, width, 1))
    soft = np.asarray(picture.filter(ImageFilter.GaussianBlur(0.6)), float) + noise
    return Pillow.fromarray(np.clip(soft, 0, 255).astype(np.uint8))


def _sun(draw: ImageDraw.ImageDraw, kind: str, width: int, height: int, rng: np.random.Generator) -> None:
    if kind == "night":
        for x, y, r in zip(
            rng.uniform(0, width, 60), rng.uniform(0, height * 0.6, 60), rng.uniform(0.4, 1.5, 60), strict=True
        ):
            draw.ellipse((x - r, y - r, x + r, y + r), fill=(230, 232, 250))
    x, y, r = rng.uniform(0.15, 0.85) * width, rng.uniform(0.15, 0.42) * height, rng.uniform(0.05, 0.11) * width
    draw.ellipse((x - r, y - r, x + r, y + r), fill=(240, 240, 225) if kind == "night" else (255, 240, 205))


def _layer(
    draw: ImageDraw.ImageDraw,
    kind: str,
    width: int,
    height: int,
    y: float,
    color: tuple[int, ...],
    rng: np.random.Generator,
) -> None:
    if kind == "city":
        x = -10.0
        while x < width:
            wide, top = rng.uniform(18, 52), y - rng.uniform(10, height * 0.3)
            draw.rectangle((x, top, x + wide, height), fill=color)
            x += wide
        return
    xs = np.arange(-8, width + 8, 4)
    rough = {"mountain": 0.13, "night": 0.07, "forest": 0.05, "desert": 0.05, "lake": 0.03, "sea": 0.008}[kind]
    waves = sum(np.sin(xs * rng.uniform(0.004, 0.03) * k + rng.uniform(0, 7)) / k for k in (1, 2, 4))
    if kind == "mountain":
        waves = waves - 1.2 * np.abs(((xs * rng.uniform(0.006, 0.012) + rng.uniform(0, 2)) % 2) - 1)
    line = y + waves * rough * height
    draw.polygon([(-8, height), *zip(xs.tolist(), line.tolist(), strict=True), (width + 8, height)], fill=color)
    if kind == "forest":
        for x in rng.uniform(0, width, 26):
            base = float(np.interp(x, xs, line)) + 8
            tall = rng.uniform(0.07, 0.16) * height
            draw.polygon([(x - tall * 0.28, base), (x, base - tall), (x + tall * 0.28, base)], fill=color)


def write_scenes(path: Path, count: int) -> None:
    """A dataset of landscapes with classes, names, checksums and a tile index; some classes are rare."""
    rng = np.random.default_rng(7)
    shares = np.array([0.09, 0.12, 0.21, 0.17, 0.2, 0.06, 0.15])
    kinds = rng.choice(len(CLASSES), count, p=shares)
    folder = path.with_suffix(".jpegs")
    folder.mkdir()
    samples, names = [], []
    for number, kind in enumerate(kinds.tolist()):
        file = folder / f"{number}.jpg"
        scene(CLASSES[kind], number).save(file, quality=88)
        samples.append((file.read_bytes(), kind, float(np.round(rng.uniform(0, 2600)))))
        names.append(f"{CLASSES[kind]}/{number:05d}.jpg")
        file.unlink()
    folder.rmdir()
    fields = {"image": hr.Image(), "label": hr.Int(), "altitude": hr.Float()}
    hr.write(path, samples, fields=fields, names=names, class_names={"label": list(CLASSES)}, jpeg_index=True)
