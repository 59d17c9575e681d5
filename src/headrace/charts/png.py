"""Charts as one PNG: drawn by Pillow, which is there in any case, in the light colours of the SVG."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

from headrace.charts.charts import lay_out
from headrace.charts.shapes import Curve, Dot, Line, Rectangle, Words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from PIL.Image import Image
    from PIL.ImageFont import FreeTypeFont

    from headrace.charts.charts import Chart
    from headrace.charts.shapes import Shape

__all__ = ["chart_png"]

_SCALE = 2  # pixels of the picture for one of a drawing, so that letters are sharp
_MARGIN, _TITLE, _HEAD = 20, 30, 34
_PAPER, _INK, _SOFT, _GRID, _AXIS = "#fcfcfa", "#1d2126", "#5d6672", "#e3e5e8", "#9aa2ac"
_COLOURS = ("#2f6fb3", "#d9822b", "#3b8f5a", "#b8475f", "#7a5fb5", "#8a7a2c", "#2a9aa3", "#7d8590")
_LINES = {"grid": _GRID, "axis": _AXIS, "spread": _INK}
_ANCHORS = {"start": "ls", "middle": "ms", "end": "rs"}
_DOT = 5


def chart_png(charts: Sequence[Chart], *, title: str, facts: str = "", mark: str = "") -> bytes:
    """All charts below each other, each under its title; ``mark`` says in the file what made it."""
    from PIL import Image, ImageDraw, PngImagePlugin

    drawings = [lay_out(chart) for chart in charts]
    width = max((drawing.width for drawing in drawings), default=400) + 2 * _MARGIN
    height = _HEAD + _MARGIN + sum(_TITLE + drawing.height + _MARGIN for drawing in drawings)
    picture = Image.new("RGB", (width * _SCALE, height * _SCALE), _PAPER)
    pen = _Pen(picture, ImageDraw.Draw(picture))
    pen.words(_MARGIN, _HEAD - 8, title, _INK, 15)
    pen.words(width - _MARGIN, _HEAD - 8, facts, _SOFT, 12, "end")
    y = _HEAD + _MARGIN / 2
    for drawing in drawings:
        pen.words(_MARGIN, y + 14, drawing.title, _INK, 14)
        for shape in drawing.shapes:
            pen.shape(shape, _MARGIN, y + _TITLE)
        y += _TITLE + drawing.height + _MARGIN
    out = io.BytesIO()
    about = PngImagePlugin.PngInfo()
    about.add_text("Software", mark or "headrace")
    picture.save(out, "PNG", optimize=True, pnginfo=about)
    return out.getvalue()


class _Pen:
    """Draws shapes at a multiple of their size."""

    def __init__(self, picture: Image, draw: Any) -> None:
        self._picture, self._draw = picture, draw
        self._fonts: dict[int, FreeTypeFont] = {}

    def shape(self, shape: Shape, dx: float, dy: float) -> None:
        match shape:
            case Words():
                colour, size = (_SOFT, 12) if shape.kind == "small" else (_INK, 13)
                self.words(shape.x + dx, shape.y + dy, shape.text, colour, size, shape.anchor, shape.is_turned)
            case Line():
                ends = [(shape.x1 + dx, shape.y1 + dy), (shape.x2 + dx, shape.y2 + dy)]
                self._draw.line(_scaled(ends), fill=_LINES.get(shape.kind, _INK), width=_SCALE)
            case Rectangle():
                ends = [(shape.x + dx, shape.y + dy), (shape.x + dx + shape.width, shape.y + dy + shape.height)]
                (left, top), (right, bottom) = _scaled(ends)
                box = [left, top, max(left, right - 1), max(top, bottom - 1)]
                self._draw.rectangle(box, fill=_COLOURS[shape.colour % 8])
            case Dot():
                ends = [(shape.x + dx - _DOT, shape.y + dy - _DOT), (shape.x + dx + _DOT, shape.y + dy + _DOT)]
                self._draw.ellipse(_scaled(ends), fill=_COLOURS[shape.colour % 8])
            case Curve():
                places = _scaled([(x + dx, y + dy) for x, y in shape.places])
                self._draw.line(places, fill=_COLOURS[shape.colour % 8], width=2 * _SCALE, joint="curve")

    def words(
        self, x: float, y: float, text: str, colour: str, size: int, anchor: str = "start", is_turned: bool = False
    ) -> None:
        font = self._font(size)
        if not is_turned:
            self._draw.text((x * _SCALE, y * _SCALE), text, fill=colour, font=font, anchor=_ANCHORS[anchor])
            return
        from PIL import Image, ImageDraw

        length, high = round(font.getlength(text)) + 2, 2 * size * _SCALE
        strip = Image.new("RGB", (max(1, length), high), _PAPER)
        ImageDraw.Draw(strip).text((1, high // 2), text, fill=colour, font=font, anchor="lm")
        turned = strip.rotate(90, expand=True)
        self._picture.paste(turned, (round(x * _SCALE - high * 0.6), round(y * _SCALE - length / 2)))

    def _font(self, size: int) -> FreeTypeFont:
        from PIL import ImageFont

        if size not in self._fonts:
            found: Any = ImageFont.load_default(size * _SCALE)  # comes with Pillow
            self._fonts[size] = found
        return self._fonts[size]


def _scaled(places: Sequence[tuple[float, float]]) -> list[tuple[int, int]]:
    return [(round(x * _SCALE), round(y * _SCALE)) for x, y in places]
