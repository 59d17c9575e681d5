"""Files that are called pictures and are something else."""

from __future__ import annotations

import io
import os
import struct
import zlib
from typing import TYPE_CHECKING

import numpy as np
import pytest
from PIL import Image as Pillow
from tests.attacks.limited import run_limited
from tests.helpers import image_file, picture

from headrace.codecs import image
from headrace.errors import HeadraceError, ImageError
from headrace.formats.barecat import Archive

if TYPE_CHECKING:
    from pathlib import Path

EPS = b"""%!PS-Adobe-3.0 EPSF-3.0
%%BoundingBox: 0 0 16 16
%%EndComments
(/etc/passwd) (r) file
%%EOF
"""

READ = """
import sys
import headrace
import headrace.errors
from headrace.cli.main import main
from headrace.cli.previews import describe_file
from headrace.compat.barecat.io.codecs import DecodedView
from headrace.formats.barecat import Archive

path, eps = sys.argv[1], open(sys.argv[2], "rb").read()
def tried(function):
    try:
        function()
    except (headrace.errors.HeadraceError, ValueError) as error:
        print(type(error).__name__)
dataset = headrace.open(path)
tried(lambda: dataset[0])
tried(lambda: next(iter(headrace.Loader(path, 1))))
tried(lambda: DecodedView({"cat.png": eps})["cat.png"])
tried(lambda: headrace.write(path + ".beton", [(eps,)], fields={"image": headrace.Image()}))
with Archive(path) as archive:
    print(describe_file(archive, archive.stat("cat.png")).lines[-1][:12])
main(["verify", "--decode", "--quiet", path])
"""


def test_no_picture_starts_ghostscript(tmp_path: Path) -> None:
    tools, log = tmp_path / "bin", tmp_path / "called"
    tools.mkdir()
    (tools / "gs").write_text(f'#!/bin/sh\necho "$@" >> {log}\necho 10.0\n')
    (tools / "gs").chmod(0o755)
    (tmp_path / "cat.png").write_bytes(EPS)
    with Archive(tmp_path / "x.barecat", "x") as archive:
        archive["cat.png"] = EPS
    env = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}"}
    printed, _ = run_limited(READ, str(tmp_path / "x.barecat"), str(tmp_path / "cat.png"), env=env)
    assert "It cannot be" in printed
    assert printed.count("Error") == 4
    assert not log.exists()


def other_kinds() -> dict[str, bytes]:
    """Pictures that Pillow can read, of kinds that are not named."""
    found = {"eps": EPS}
    for kind in ("ICO", "PCX", "TGA", "SGI", "JPEG2000", "DDS", "EPS", "ICNS"):
        out = io.BytesIO()
        try:
            Pillow.fromarray(picture(1, 16, 16)).save(out, kind)
        except (OSError, ValueError, KeyError):
            continue  # not built in
        found[kind.lower()] = out.getvalue()
    return found


@pytest.mark.parametrize("kind", other_kinds())
def test_kinds_that_are_not_named_are_not_read(kind: str) -> None:
    with pytest.raises(ImageError, match="not a picture"):
        image.decode(other_kinds()[kind])


def png(width: int, height: int, *, bits: int = 8, colour: int = 2, data: bytes = b"") -> bytes:
    def chunk(name: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))

    head = struct.pack(">IIBBBBB", width, height, bits, colour, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(data)) + chunk(b"IEND", b"")


def bmp(**changes: int) -> bytes:
    data = bytearray(image_file(picture(1, 8, 8), "BMP"))
    for at, value in changes.items():
        struct.pack_into("<i", data, int(at[1:]), value)
    return bytes(data)


ODD = {
    "a png of four billion rows": png(1, 2**31 - 1),
    "a png bomb": png(60_000, 60_000),
    "an empty png": png(0, 0),
    "a bmp of negative sides": bmp(_18=-5, _22=-(2**31)),
    "a huge bmp": bmp(_18=2**31 - 1, _22=2**31 - 1),
    "a bmp of unknown compression": bmp(_30=77),
    "a bmp with jpeg inside": bmp(_30=4),
    "a ppm of huge numbers": b"P6 99999999999999999999 1 255\n" + bytes(10),
    "a ppm of letters": b"P6 x y z\n",
    "a ppm of 65535": b"P5 2 2 70000\n" + bytes(8),
    "a tiff without tags": b"II*\0" + struct.pack("<I", 8) + b"\0\0",
    "a tiff that goes round": b"II*\0" + struct.pack("<I", 8) + b"\0\0" + struct.pack("<I", 8),
    "a tiff of nonsense": b"II*\0" + struct.pack("<IH", 8, 3) + bytes(range(36)) + bytes(4),
    "a gif without frames": b"GIF89a" + bytes(7),
    "a webp of nothing": b"RIFF\x10\0\0\0WEBPVP8X" + bytes(20),
}


@pytest.mark.filterwarnings("ignore")  # Pillow warns before it refuses
@pytest.mark.parametrize("name", ODD)
def test_what_pillow_raises_is_an_image_error(name: str) -> None:
    with pytest.raises(ImageError):
        image.decode(ODD[name])


@pytest.mark.parametrize(
    "error", [NotImplementedError(), struct.error("x"), OverflowError("y"), MemoryError(), KeyError(1)]
)
def test_any_error_of_pillow_is_an_image_error(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(Pillow.Image, "convert", fail)
    grey = image_file(Pillow.fromarray(np.zeros((4, 4), np.uint8)), "BMP")
    with pytest.raises(ImageError, match=r"cannot be decoded: .+") as caught:
        image.decode(grey)
    assert caught.value.__cause__ is error


def test_wrong_arguments_stay_type_errors() -> None:
    with pytest.raises(TypeError):
        image.decode("text")  # type: ignore[arg-type]
    assert issubclass(ImageError, HeadraceError)
