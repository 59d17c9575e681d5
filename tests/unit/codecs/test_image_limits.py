"""What pictures may declare, and what decoding them takes."""

from __future__ import annotations

import io
import struct
import zlib
from pathlib import Path

import numpy as np
import PIL.Image
import pytest
from tests.attacks.limited import run_limited
from tests.helpers import image_file, picture

from headrace.codecs import image
from headrace.errors import ImageError

WIDE, HIGH = 12_000, 8000  # more than Pillow's limit, less than twice that, where Pillow raises by itself


def png() -> bytes:
    def chunk(name: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))

    head = struct.pack(">IIBBBBB", WIDE, HIGH, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(bytes(9))) + chunk(b"IEND", b"")


def patched(kind: str, form: str, *places: int) -> bytes:
    data = bytearray(image_file(picture(1, 8, 8), kind))
    for place, side in zip(places, (WIDE, HIGH), strict=True):
        struct.pack_into(form, data, place, side)
    return bytes(data)


def webp() -> bytes:
    out = io.BytesIO()
    PIL.Image.new("RGB", (8, 8)).save(out, "WEBP", lossless=True)
    data = bytearray(out.getvalue())
    at = data.index(b"VP8L") + 9
    flags = struct.unpack_from("<I", data, at)[0] & (0xF << 28)
    struct.pack_into("<I", data, at, (WIDE - 1) | (HIGH - 1) << 14 | flags)
    return bytes(data)


def cmyk(*, side: int = 8) -> bytes:
    return image_file(PIL.Image.new("CMYK", (side, side)), "JPEG")


def jpeg() -> bytes:
    data = bytearray(cmyk())
    struct.pack_into(">HH", data, data.index(b"\xff\xc0") + 5, HIGH, WIDE)
    return bytes(data)


def tiff(compression: int) -> bytes:
    content = zlib.compress(bytes(999))
    numbers = {
        256: WIDE,
        257: HIGH,
        258: 8,
        259: compression,
        262: 1,
        273: 122,
        277: 1,
        278: 2**32 - 1,
        279: len(content),
    }
    entries = b"".join(struct.pack("<HHII", number, 4, 1, value) for number, value in numbers.items())
    return struct.pack("<2sHIH", b"II", 42, 8, len(numbers)) + entries + bytes(4) + content


def huge() -> dict[str, bytes]:
    return {
        "png": png(),
        "gif": patched("GIF", "<H", 6, 8),
        "bmp": patched("BMP", "<i", 18, 22),
        "ppm": b"P6 %d %d 255\n" % (WIDE, HIGH) + bytes(9),
        "webp": webp(),
        "cmyk jpeg": jpeg(),
        "tiff": tiff(1),
        "tiff, deflated": tiff(8),
        "tiff, lzw": tiff(5),
    }


@pytest.mark.filterwarnings("ignore")  # Pillow warns, too
@pytest.mark.parametrize("kind", huge())
def test_too_many_pixels(kind: str) -> None:
    with pytest.raises(ImageError, match=f"{WIDE}x{HIGH} pixels, and at most 89478485 .*MAX_IMAGE_PIXELS"):
        image.decode(huge()[kind])


REFUSE = """
import pathlib, sys, time, warnings
warnings.simplefilter("ignore")
from headrace.codecs import image
from headrace.errors import ImageError
for file in pathlib.Path(sys.argv[1]).iterdir():
    data = file.read_bytes()
    start = time.process_time()
    for decode in (image.decode, image.decode_any):
        try:
            decode(data)
        except ImageError:
            continue
        raise SystemExit(f"{file} was decoded")
    if time.process_time() - start > 5:
        raise SystemExit(f"{file} took {time.process_time() - start} s")
"""


def test_what_is_refused_takes_no_memory(tmp_path: Path) -> None:
    stored = Path(__file__).parents[2] / "fuzz" / "corpus" / "picture"
    files = huge() | {path.name: path.read_bytes() for path in stored.iterdir() if not path.name.startswith("found")}
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    assert len(files) > 12
    _, peak = run_limited(REFUSE, str(tmp_path))
    assert peak < 150


MEASURE = """
import pathlib, sys
from headrace.codecs import image
import PIL.Image
PIL.Image.init()
def now(key):
    return next(int(line.split()[1]) << 10 for line in open("/proc/self/status") if line.startswith(key))
for file in sorted(pathlib.Path(sys.argv[1]).iterdir()):
    data = file.read_bytes()
    pathlib.Path("/proc/self/clear_refs").write_text("5")
    before = now("VmRSS")
    pixels = image.decode(data, background=(1, 2, 3))
    print(file.name, (now("VmHWM") - before) / (pixels.size / 3))
    del pixels
"""


@pytest.mark.slow
def test_memory_for_a_pixel(tmp_path: Path) -> None:
    side = 2500
    kinds = {"rgb": "RGB", "grey": "L", "palette": "P", "alpha": "RGBA"}
    for name, mode in kinds.items():
        (tmp_path / f"{name}.png").write_bytes(image_file(PIL.Image.new(mode, (side, side)), "PNG"))
    (tmp_path / "cmyk.jpg").write_bytes(cmyk(side=side))
    (tmp_path / "x.gif").write_bytes(image_file(PIL.Image.new("P", (side, side)), "GIF"))
    out = io.BytesIO()
    PIL.Image.new("RGBA", (side, side)).save(out, "WEBP", lossless=True, method=0)
    (tmp_path / "x.webp").write_bytes(out.getvalue())
    assert len(out.getvalue()) < 100
    printed, _ = run_limited(MEASURE, str(tmp_path))
    taken = {name: float(value) for name, value in (line.split() for line in printed.splitlines())}
    assert len(taken) == 7
    assert taken.pop("x.webp") < 22
    assert max(taken.values()) < 13


def test_pillows_limit_is_the_users_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    data = image_file(picture(2, 12, 18), "PNG")
    monkeypatch.setattr(PIL.Image, "MAX_IMAGE_PIXELS", 12 * 18)
    assert image.decode(data).shape == (12, 18, 3)
    monkeypatch.setattr(PIL.Image, "MAX_IMAGE_PIXELS", None)
    assert image.decode(data).shape == (12, 18, 3)
    monkeypatch.setattr(PIL.Image, "MAX_IMAGE_PIXELS", 12 * 18 - 1)
    with pytest.warns(PIL.Image.DecompressionBombWarning), pytest.raises(ImageError, match="at most 215"):
        image.decode(data)


def runs(width: int, height: int, content: bytes) -> bytes:
    """A BMP of 8 bits whose rows are compressed."""
    palette = b"".join(bytes([i, 255 - i, 7, 0]) for i in range(256))
    head = struct.pack("<IiiHHIIiiII", 40, width, height, 1, 8, 1, len(content), 0, 0, 256, 0)
    start = 14 + len(head) + len(palette)
    return struct.pack("<2sIHHI", b"BM", start + len(content), 0, 0, start) + head + palette + content


def test_a_bmp_of_runs() -> None:
    found = image.decode(runs(4, 2, bytes([4, 9, 0, 0, 1, 5, 3, 6, 0, 1])))
    assert found[1].tolist() == [[7, 246, 9]] * 4
    assert found[0, :, 2].tolist() == [5, 6, 6, 6]


def test_a_bmp_of_runs_that_are_not_there() -> None:
    for data in (runs(1 << 23, 1, bytes(100)), runs(1 << 13, 1 << 12, bytes(1 << 19))):
        with pytest.raises(ImageError, match=r"compressed BMP .* at most 16777216"):
            image.decode(data)


def test_a_jpeg_of_many_scans() -> None:
    data = cmyk()
    assert image.decode(data).shape == (8, 8, 3)
    assert image.decode(data + b"\xff\xda" * 499).shape == (8, 8, 3)
    with pytest.raises(ImageError, match="501 scans"):
        image.decode(data + b"\xff\xda" * 500)


@pytest.mark.parametrize("part", [7, 23, 100])
def test_parts_change_no_pixel(part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    pixels = PIL.Image.fromarray(picture(5, 37, 23))
    alpha = pixels.convert("RGBA")
    alpha.putalpha(pixels.convert("L"))
    all_of = [pixels.convert(mode) for mode in ("RGB", "L", "LA", "P", "1", "CMYK", "YCbCr")] + [
        alpha,
        alpha.convert("LA"),
    ]
    for mode, transparent in (("P", 3), ("L", 4), ("RGB", (1, 2, 3))):
        with_key = pixels.convert(mode)
        with_key.info["transparency"] = transparent
        all_of.append(with_key)
    whole = [image.pillow_to_rgb(one, background=(9, 8, 7)) for one in all_of]
    monkeypatch.setattr(image, "_PART_PIXELS", part)
    for one, expected in zip(all_of, whole, strict=True):
        np.testing.assert_array_equal(image.pillow_to_rgb(one, background=(9, 8, 7)), expected)
    with pytest.raises(ImageError, match="transparent"):
        image.pillow_to_rgb(alpha)
