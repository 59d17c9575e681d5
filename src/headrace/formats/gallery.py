"""Samples or a batch to look at: as HTML for a notebook, as text and half blocks for a terminal.

Everything may come from a hostile file: it is escaped, cut, and bounded in number. Styles stand in the elements and
take the colours of the page, so that a gallery is right in light and dark and changes nothing else in a notebook.
"""

from __future__ import annotations

import base64
import sys
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, TextIO

from headrace.codecs.small_picture import small_array
from headrace.formats.thumbnails import encode_thumbnail
from headrace.progress import format_count, is_notebook
from headrace.terminal import block_lines, cut, find_screen
from headrace.terminal.text import width_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from headrace.codecs.small_picture import SmallPicture
    from headrace.terminal import Screen

__all__ = ["MAX_TILES", "Gallery", "Tile", "present"]

MAX_TILES = 256
_MOST_FIELDS = 40
_NAME, _WORDS, _CAPTION, _ERROR = 60, 160, 60, 160  # characters
_MOST_BYTES = 4 << 20  # of pictures in one page
_TINY = 64
_NARROWEST = 96  # pixels, for the words below a picture
_SOFT = "opacity:.7;font-size:85%"
_LINE = "1px solid rgba(128,128,128,.35)"
_TILE_COLUMNS, _TILE_LINES = 24, 10  # on a terminal


@dataclass(frozen=True, kw_only=True, slots=True)
class Tile:
    """One sample: its picture or what is wrong with it, and lines of text."""

    captions: Sequence[str]
    picture: SmallPicture | None = None
    problem: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Gallery:
    """What ``show`` gives: a notebook draws it as HTML, ``print`` writes it as text.

    Args:
        title: what it is.
        facts: how much there is, in a few words.
        fields: pairs of a name and what is to be said about it.
        tiles: the samples.
        note: a last line, such as what was left out.
        side: the longest side of a picture on a page, in pixels.
    """

    title: str
    facts: str
    fields: Sequence[tuple[str, str]]
    tiles: Sequence[Tile] = ()
    note: str = ""
    side: int = 128

    def _repr_html_(self) -> str:
        title, facts, note = (_html(text, _WORDS) for text in (self.title, self.facts, self.note))
        head = f'<div><b>{title}</b> <span style="{_SOFT}">{facts}</span></div>'
        foot = f'<div style="{_SOFT}">{note}</div>' if note else ""
        inside = "".join([head, _table(self.fields), *self._figures(), foot])
        return f'<div style="font-family:system-ui,sans-serif;line-height:1.4">{inside}</div>'

    def _figures(self) -> Iterator[str]:
        if not self.tiles:
            return
        yield '<div style="display:flex;flex-wrap:wrap;gap:10px;margin:8px 0;align-items:flex-end">'
        left_bytes = _MOST_BYTES
        for tile in self.tiles:
            picture, size = self._picture(tile, left_bytes)
            left_bytes -= size
            yield f'<figure style="margin:0;width:{max(self.side, _NARROWEST)}px">{picture}{_captions(tile)}</figure>'
        yield "</div>"

    def _picture(self, tile: Tile, left_bytes: int) -> tuple[str, int]:
        """The picture of a tile, and the bytes that it takes."""
        if tile.problem:
            return self._frame(_html(tile.problem, _ERROR), "color:#d9534f;"), 0
        if tile.picture is None:
            return "", 0
        small = encode_thumbnail(tile.picture)
        if len(small.data) > left_bytes:
            return self._frame("left out: the page would become too large"), 0
        rows, columns = tile.picture.pixels.shape[:2]
        times = max(1, self.side // max(rows, columns)) if max(rows, columns) <= _TINY else 1
        size = f'width="{columns * times}" height="{rows * times}"'
        style = "display:block;max-width:100%" + (";image-rendering:pixelated" if times > 1 else "")
        words = _html(f"{small.width} x {small.height} pixels", _WORDS)
        data = base64.b64encode(small.data).decode()
        source = f"data:{small.media_type};base64,{data}"
        return f'<img src="{source}" {size} alt="{words}" title="{words}" style="{style}">', len(small.data)

    def _frame(self, text: str, style: str = "") -> str:
        box = f"width:{self.side}px;min-height:{self.side // 2}px;box-sizing:border-box;padding:4px"
        return f'<div style="{box};border:{_LINE};{style}font-size:75%;overflow-wrap:anywhere">{text}</div>'

    def __str__(self) -> str:
        return "\n".join(self.lines(find_screen(None)))

    __repr__ = __str__

    def lines(self, screen: Screen) -> Iterator[str]:
        """For a terminal: pictures as half blocks where it has colours."""
        yield f"{cut(self.title, _WORDS)}: {cut(self.facts, _WORDS)}"
        for name, words in self.fields[:_MOST_FIELDS]:
            yield f"  {cut(name, 24):<16} {cut(words, _WORDS)}"
        if len(self.fields) > _MOST_FIELDS:
            yield f"  and {format_count(len(self.fields) - _MOST_FIELDS, 'field')} more"
        if self.tiles:
            yield ""
        if screen.way == "text" or not any(tile.picture is not None for tile in self.tiles):
            yield from (f"  {_one_line(tile)}" for tile in self.tiles)
        else:
            across = max(1, (screen.columns + 2) // (_TILE_COLUMNS + 2))
            for start in range(0, len(self.tiles), across):
                yield from _row_of_tiles(self.tiles[start : start + across], screen)
        if self.note:
            yield cut(self.note, _WORDS)


def present(gallery: Gallery, stream: TextIO | None = None) -> Gallery | None:
    """Give a gallery to a notebook, which draws what a cell ends with; anywhere else, print it and give nothing."""
    out = sys.stdout if stream is None else stream
    if is_notebook(out):
        return gallery
    screen = find_screen(out)
    for line in gallery.lines(screen):
        print(line, file=out)
    return None


def _html(text: str, most: int) -> str:
    return escape(cut(text, most), quote=True)


def _table(fields: Sequence[tuple[str, str]]) -> str:
    if not fields:
        return ""
    cell = "padding:1px 14px 1px 0;text-align:left;vertical-align:top;background:transparent;border:0"
    rows = [
        f'<tr style="background:transparent"><td style="{cell}">{_html(name, _NAME)}</td>'
        f'<td style="{cell};opacity:.8">{_html(words, _WORDS)}</td></tr>'
        for name, words in fields[:_MOST_FIELDS]
    ]
    if len(fields) > _MOST_FIELDS:
        more = format_count(len(fields) - _MOST_FIELDS, "field")
        rows.append(f'<tr><td style="{cell}" colspan="2">and {more} more</td></tr>')
    return f'<table style="border-collapse:collapse;margin:4px 0;font-size:90%">{"".join(rows)}</table>'


def _captions(tile: Tile) -> str:
    """A line each; what is too long ends in dots, and is read in full by pointing at it."""
    style = "white-space:nowrap;overflow:hidden;text-overflow:ellipsis"
    lines = [_html(line, _CAPTION) for line in tile.captions]
    inside = "".join(f'<div style="{style}" title="{line}">{line}</div>' for line in lines)
    return f'<figcaption style="opacity:.7;font-size:75%">{inside}</figcaption>'


def _one_line(tile: Tile) -> str:
    size = "" if tile.picture is None else f"{tile.picture.width} x {tile.picture.height}"
    parts = [*tile.captions, size, cut(tile.problem, _ERROR)]
    return "  ".join(cut(part, _ERROR) for part in parts if part)


def _row_of_tiles(tiles: Sequence[Tile], screen: Screen) -> Iterator[str]:
    """Tiles beside each other; a colour ends before the space to the next one begins."""
    drawn = [_drawn(tile, screen) for tile in tiles]
    for number in range(max(map(len, drawn))):
        cells = [one[number] if number < len(one) else ("", 0) for one in drawn]
        yield "  ".join(text + " " * (_TILE_COLUMNS - width) for text, width in cells).rstrip(" ")
    yield ""


def _drawn(tile: Tile, screen: Screen) -> list[tuple[str, int]]:
    """Lines and the columns that each takes; captions stand below all pictures of a row."""
    lines: list[tuple[str, int]] = []
    if tile.picture is not None:
        small = small_array(tile.picture.pixels, (_TILE_COLUMNS, 2 * _TILE_LINES)).pixels
        lines = [(line, small.shape[1]) for line in block_lines(small, is_256=screen.way == "blocks256")]
    lines += [("", 0)] * (_TILE_LINES - len(lines))
    words = [*tile.captions, *([tile.problem] if tile.problem else [])]
    shown = [cut(word, _TILE_COLUMNS) for word in words]
    return lines + [(word, width_of(word)) for word in shown]
