"""The same pictures by several codecs: bytes, encoding, decoding, decoding of a crop, and what was lost."""

from __future__ import annotations

import io
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import PIL.Image

from headrace.bench.charts import bars_of
from headrace.bench.pictures import photo, photograph_bytes
from headrace.bench.rows import compared_rows, exact_row
from headrace.bench.suite import Suite
from headrace.bench.turns import one_core, take_turns
from headrace.charts import Point, PointChart
from headrace.codecs import image as image_codec
from headrace.codecs import jpeg
from headrace.fields import Image

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import numpy.typing as npt

    from headrace.bench.rows import Finding, Row
    from headrace.bench.suite import Settings, Tell
    from headrace.charts import Chart
    from headrace.types import Encoded

    Pixels = npt.NDArray[np.uint8]

__all__ = ["SUITE"]

_QUALITIES = (50, 75, 85, 90, 95, 100)
_SMART_BYTES = 128 * 1024
_CROP = 0.66
"""Side of the crop, as a share of the picture's: the median of those that RandomResizedCrop draws of 500 x 375."""
_LOSSLESS_DB = 99.0
_MOST_SIDE = 512


@dataclass(frozen=True, kw_only=True)
class _Codec:
    """One way to store a picture; what is stored may be more than bytes, such as a JPEG with its index."""

    name: str
    encode: Callable[[Pixels], Any]
    decode: Callable[[Any], Pixels]
    crop: Callable[[Any, tuple[int, int, int, int]], Pixels]
    size: Callable[[Any], int]


def _codecs() -> list[_Codec]:
    found = [_plain(f"JPEG {quality}", partial(jpeg.encode, quality=quality), jpeg.decode) for quality in _QUALITIES]
    found.append(
        _Codec(
            name="JPEG 90, with tile index",
            encode=_indexed_jpeg,
            decode=lambda pair: jpeg.decode(pair[0]),
            crop=_crop_by_index,
            size=lambda pair: len(pair[0]) + len(pair[1]),
        )
    )
    found.append(_plain("PNG", _pillow("PNG"), image_codec.decode))
    found.append(_plain("WebP 80", _pillow("WEBP", quality=80), image_codec.decode))
    found.append(_plain("WebP, lossless", _pillow("WEBP", lossless=True), image_codec.decode))
    found.append(_stored("raw", Image(mode="raw")))
    found.append(_stored("smart", Image(mode="smart", smart_threshold=_SMART_BYTES, quality=90)))
    return found


def _plain(name: str, encode: Callable[[Pixels], bytes], decode: Callable[[Any], Pixels]) -> _Codec:
    """A file of its own, of which a crop needs all."""
    return _Codec(
        name=name, encode=encode, decode=decode, crop=lambda data, box: _cut(decode(data), box).copy(), size=len
    )


def _pillow(kind: str, **options: Any) -> Callable[[Pixels], bytes]:
    def encode(pixels: Pixels) -> bytes:
        out = io.BytesIO()
        PIL.Image.fromarray(pixels).save(out, kind, **options)
        return out.getvalue()

    return encode


def _stored(name: str, field: Image) -> _Codec:
    """As a field of a .beton stores it: raw pixels are looked at where they lie, and only a crop is copied."""

    def decode(stored: Encoded) -> Pixels:
        return field.decode(stored.facts, memoryview(stored.payload or b""))

    def crop(stored: Encoded, box: tuple[int, int, int, int]) -> Pixels:
        if stored.facts[0]:
            _, width, height = stored.facts
            whole = np.frombuffer(stored.payload or b"", np.uint8).reshape(int(height), int(width), 3)
            return _cut(whole, box).copy()
        return _cut(decode(stored), box).copy()

    return _Codec(
        name=name,
        encode=lambda pixels: field.encode(pixels, 0),
        decode=decode,
        crop=crop,
        size=lambda stored: len(stored.payload or b""),
    )


def _indexed_jpeg(pixels: Pixels) -> tuple[bytes, bytes]:
    data = jpeg.encode(pixels, quality=90)
    return data, jpeg.index(data)


def _crop_by_index(pair: tuple[bytes, bytes], box: tuple[int, int, int, int]) -> Pixels:
    _, _, width, height = box
    part = jpeg.slice(*pair, box)
    return jpeg.decode(part.data)[part.top : part.top + height, part.left : part.left + width].copy()


def _cut(pixels: Pixels, box: tuple[int, int, int, int]) -> Pixels:
    left, top, width, height = box
    return pixels[top : top + height, left : left + width]


def _middle(pixels: Pixels) -> tuple[int, int, int, int]:
    height, width = pixels.shape[:2]
    w, h = max(1, int(width * _CROP)), max(1, int(height * _CROP))
    return (width - w) // 2, (height - h) // 2, w, h


def _pictures(settings: Settings) -> list[Pixels]:
    count = settings.count(quick=12, full=64)
    if settings.images is None:
        return [photo(number) for number in range(count)]
    return [_part(jpeg.decode(data)) for data in photograph_bytes(settings.images, count)]


def _part(pixels: Pixels) -> Pixels:
    """The middle of a large picture: some codecs take a minute for all of one."""
    height, width = pixels.shape[:2]
    top, left = max(0, height - _MOST_SIDE) // 2, max(0, width - _MOST_SIDE) // 2
    return np.ascontiguousarray(pixels[top : top + _MOST_SIDE, left : left + _MOST_SIDE])


def _run(settings: Settings, tell: Tell) -> Iterator[Finding]:
    pictures = _pictures(settings)
    rounds = settings.repeats(quick=3, full=9)
    pixels = sum(one.shape[0] * one.shape[1] for one in pictures)
    codecs = _codecs()
    with one_core():
        tell("encoding once")
        stored = {codec.name: [codec.encode(one) for one in pictures] for codec in codecs}
        yield from _sizes(codecs, stored, pictures, pixels)
        for what, work in (("encode", _encodings), ("decode", _decodings), ("decode a crop", _crops)):
            tell(f"{what}, in turns")
            contenders = {codec.name: work(codec, stored[codec.name], pictures) for codec in codecs}
            seconds = take_turns(
                contenders,
                lambda turn: range(len(pictures)),
                rounds,
                size=lambda number: pictures[number].shape[0] * pictures[number].shape[1] / 1e6,
                longest_s=2.0,
            )
            yield from compared_rows(what, seconds, unit="Mpixel/s")


def _sizes(
    codecs: Sequence[_Codec], stored: dict[str, list[Any]], pictures: list[Pixels], pixels: int
) -> Iterator[Row]:
    for codec in codecs:
        size = sum(map(codec.size, stored[codec.name]))
        bits = 8 * size / pixels
        yield exact_row("size", codec.name, bits, unit="bits a pixel", better="lower")
    for codec in codecs:
        errors = [_psnr(codec.decode(s), p) for s, p in zip(stored[codec.name], pictures, strict=True)]
        yield exact_row("error", codec.name, float(np.mean(errors)), unit="dB PSNR", better="higher")


def _psnr(found: Pixels, expected: Pixels) -> float:
    """Decibels; 99 for what was not lost."""
    error = float(np.mean((found.astype(np.float32) - expected.astype(np.float32)) ** 2))
    return min(_LOSSLESS_DB, 10 * np.log10(255**2 / error)) if error else _LOSSLESS_DB


def _encodings(codec: _Codec, stored: list[Any], pictures: list[Pixels]) -> Callable[[int], object]:
    return lambda number: codec.encode(pictures[number])


def _decodings(codec: _Codec, stored: list[Any], pictures: list[Pixels]) -> Callable[[int], object]:
    return lambda number: codec.decode(stored[number])


def _crops(codec: _Codec, stored: list[Any], pictures: list[Pixels]) -> Callable[[int], object]:
    return lambda number: codec.crop(stored[number], _middle(pictures[number]))


def _charts(rows: Sequence[Row]) -> list[Chart]:
    found: dict[str, dict[str, float]] = {}
    for row in rows:
        found.setdefault(row.section, {})[row.name] = row.value
    charts: list[Chart] = []
    for what, label in (("decode", "decoding"), ("decode a crop", "decoding a crop")):
        points = [
            Point(bits, found.get(what, {})[name], name, "JPEG" if name.startswith("JPEG") else "others")
            for name, bits in found.get("size", {}).items()
            if name in found.get(what, {})
        ]
        if points:
            charts.append(
                PointChart(
                    title=f"Size against the speed of {label}",
                    x_label="bits a pixel",
                    y_label="Mpixel/s",
                    points=points,
                    is_log_x=True,
                    is_log_y=True,
                )
            )
    charts += bars_of(rows, "Encoding", ["encode"])
    charts += bars_of(rows, "Error (99 dB: nothing was lost)", ["error"])
    return charts


SUITE = Suite(
    name="codecs",
    question="What do JPEG, PNG, WebP and raw pixels cost in space, in time and in quality?",
    run=_run,
    charts=_charts,
    room_bytes=lambda settings: 0,
    rooms=("codecs", "fields"),
    notes=(
        f"In memory, on one core; of larger pictures the middle {_MOST_SIDE} pixels of each side. JPEG is encoded and "
        "decoded by libjpeg-turbo with 4:2:0 chroma, PNG and WebP are "
        "encoded by Pillow and decoded by libpng and libwebp where the package was built with them. Smart: raw below "
        f"{_SMART_BYTES // 1024} KiB of pixels, JPEG 90 above.",
        f"A crop is the middle {_CROP:.0%} of each side. Only raw pixels and a JPEG with its tile index give it "
        "without the rest of the picture; encoding with a tile index includes making it. Speed counts the pixels of "
        "the whole picture in all three tables, so that a crop and a whole picture can be compared.",
        "Error: the mean over the pictures. Pictures from JPEG files have lost once already, before they are stored "
        "here.",
    ),
)
