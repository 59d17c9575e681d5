"""Pictures as what a terminal understands: kitty's protocol, iTerm2's, sixel, or half blocks in colours.

Nothing but pixels goes in, and what comes out is made of numbers and base64: a file cannot smuggle a sequence through.
"""

from __future__ import annotations

import base64
import io
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    from headrace.terminal.screen import Screen

__all__ = ["blend", "block_lines", "draw", "enlarge"]

_BEHIND = 128  # a transparent picture lies on grey
_CHUNK = 4096  # of base64 in one sequence of kitty's protocol
_SIXEL_COLOURS = 255
_TINY = 128  # pictures whose sides are shorter are enlarged
_RESET = "\x1b[0m"
_CUBE = np.array([0, 95, 135, 175, 215, 255])


def draw(pixels: npt.NDArray[np.uint8], screen: Screen) -> str:
    """A picture that fits, as text to write to a terminal; it ends with a line end. Empty where none can be shown."""
    if screen.way == "text":
        return ""
    if screen.way == "kitty":
        return f"{_kitty(pixels)}\n"
    if screen.way == "iterm2":
        return f"{_iterm2(pixels)}\n"
    if screen.way == "sixel":
        return f"{_sixel(blend(pixels))}\n"
    return "".join(f"{line}\n" for line in block_lines(pixels, is_256=screen.way == "blocks256"))


def enlarge(pixels: npt.NDArray[np.uint8], box: tuple[int, int]) -> npt.NDArray[np.uint8]:
    """A tiny picture some times as large, each pixel a square, as long as it fits into a box of columns and rows."""
    rows, columns = pixels.shape[:2]
    if max(rows, columns) >= _TINY:
        return pixels
    times = max(1, min(box[0] // columns, box[1] // rows, 2 * _TINY // max(rows, columns)))
    return pixels.repeat(times, axis=0).repeat(times, axis=1)


def blend(pixels: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """A picture without transparency: what is clear becomes grey."""
    if pixels.shape[2] == 3:
        return pixels
    share = pixels[:, :, 3:].astype(np.uint16)
    mixed = (pixels[:, :, :3] * share + _BEHIND * (255 - share) + 127) // 255
    return mixed.astype(np.uint8)


# Half blocks


def block_lines(pixels: npt.NDArray[np.uint8], *, is_256: bool) -> list[str]:
    """Lines of half blocks, two rows of pixels in each."""
    opaque = blend(pixels)
    if len(opaque) % 2:
        opaque = np.concatenate([opaque, opaque[-1:]])
    codes = _palette_codes(opaque) if is_256 else _true_codes(opaque)
    return [_block_line(upper, lower) for upper, lower in zip(codes[::2], codes[1::2], strict=True)]


def _block_line(upper: list[str], lower: list[str]) -> str:
    parts = []
    for (top, bottom), run in groupby(zip(upper, lower, strict=True)):
        parts.append(f"\x1b[38;{top};48;{bottom}m" + "▀" * len(list(run)))
    return "".join(parts) + _RESET


def _true_codes(pixels: npt.NDArray[np.uint8]) -> list[list[str]]:
    return [[f"2;{red};{green};{blue}" for red, green, blue in row] for row in pixels.tolist()]


def _palette_codes(pixels: npt.NDArray[np.uint8]) -> list[list[str]]:
    """The nearest of the 6 x 6 x 6 colours, or of the 24 greys where one is nearer."""
    values = pixels.astype(np.int32)
    steps = np.abs(values[..., None] - _CUBE).argmin(axis=-1)
    grey = ((values.mean(axis=2) - 8) / 10).round().clip(0, 23).astype(np.int32)
    to_cube = ((_CUBE[steps] - values) ** 2).sum(axis=2)
    to_grey = (((8 + 10 * grey)[..., None] - values) ** 2).sum(axis=2)
    numbers = np.where(to_grey < to_cube, 232 + grey, 16 + steps @ np.array([36, 6, 1]))
    return [[f"5;{number}" for number in row] for row in numbers.tolist()]


# Protocols


def _png(pixels: npt.NDArray[np.uint8]) -> bytes:
    from PIL import Image

    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "PNG", compress_level=1)
    return out.getvalue()


def _kitty(pixels: npt.NDArray[np.uint8]) -> str:
    """Show a PNG at the cursor; q=2: the terminal answers nothing, for nobody would read it."""
    text = base64.b64encode(_png(pixels)).decode()
    chunks = [text[at : at + _CHUNK] for at in range(0, len(text), _CHUNK)]
    parts = []
    for number, chunk in enumerate(chunks):
        first = "a=T,f=100,q=2," if number == 0 else ""
        parts.append(f"\x1b_G{first}m={int(number < len(chunks) - 1)};{chunk}\x1b\\")
    return "".join(parts)


def _iterm2(pixels: npt.NDArray[np.uint8]) -> str:
    data = _png(pixels)
    rows, columns = pixels.shape[:2]
    facts = f"inline=1;size={len(data)};width={columns}px;height={rows}px;preserveAspectRatio=1"
    return f"\x1b]1337;File={facts}:{base64.b64encode(data).decode()}\x07"


def _sixel(pixels: npt.NDArray[np.uint8]) -> str:
    from PIL import Image

    rows, columns = pixels.shape[:2]
    reduced = Image.fromarray(pixels).quantize(_SIXEL_COLOURS, method=Image.Quantize.MEDIANCUT)
    numbers = np.asarray(reduced)
    flat = reduced.getpalette() or []
    levels = [flat[at : at + 3] for at in range(0, 3 * (int(numbers.max()) + 1), 3)]
    palette = "".join(
        f"#{number};2;" + ";".join(str(round(level / 2.55)) for level in one) for number, one in enumerate(levels)
    )
    bands = "-".join(_sixel_band(numbers[top : top + 6]) for top in range(0, rows, 6))
    return f'\x1bPq"1;1;{columns};{rows}{palette}{bands}\x1b\\'


def _sixel_band(band: npt.NDArray[np.uint8]) -> str:
    """Six rows: for each colour that they have, a letter for each column whose bits say where the colour is."""
    bits = 1 << np.arange(len(band))
    parts = []
    for colour in sorted(set(band.ravel().tolist())):
        letters = ((band == colour).T @ bits + 63).astype(np.uint8).tobytes().decode("ascii")
        parts.append(f"#{colour}{_shortened(letters)}")
    return "$".join(parts)


def _shortened(letters: str) -> str:
    """Runs of more than three as their number and the letter."""
    parts = []
    for letter, run in groupby(letters):
        count = len(list(run))
        parts.append(f"!{count}{letter}" if count > 3 else letter * count)
    return "".join(parts)
