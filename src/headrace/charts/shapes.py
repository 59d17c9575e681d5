"""What charts are made of, and how it is written as SVG; places and lengths are in pixels.

Colours have numbers, and kinds of lines and texts have names: what these look like is said by a style.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Curve", "Dot", "Drawing", "Line", "Rectangle", "Shape", "Words", "to_svg"]


@dataclass(frozen=True, slots=True)
class Words:
    """A line of text; ``turned`` is read from below."""

    x: float
    y: float
    text: str
    kind: str = ""
    anchor: Literal["start", "middle", "end"] = "start"
    is_turned: bool = False


@dataclass(frozen=True, slots=True)
class Line:
    """A straight line."""

    x1: float
    y1: float
    x2: float
    y2: float
    kind: str


@dataclass(frozen=True, slots=True)
class Rectangle:
    """A filled rectangle; ``told`` is said to who points at it."""

    x: float
    y: float
    width: float
    height: float
    colour: int
    told: str = ""


@dataclass(frozen=True, slots=True)
class Dot:
    """A filled circle."""

    x: float
    y: float
    colour: int
    told: str = ""


@dataclass(frozen=True, slots=True)
class Curve:
    """Places joined by straight lines."""

    places: Sequence[tuple[float, float]]
    colour: int


Shape: TypeAlias = Words | Line | Rectangle | Dot | Curve


@dataclass(frozen=True, slots=True)
class Drawing:
    """A chart: its title, its size, and what it is made of, in the order of drawing."""

    title: str
    width: int
    height: int
    shapes: Sequence[Shape]


def to_svg(drawing: Drawing) -> str:
    """A drawing as an SVG element without a style."""
    size = f"0 0 {drawing.width} {drawing.height}"
    head = f'<svg viewBox="{size}" role="img" aria-label="{escape(drawing.title)}">'
    return "\n".join([head, *map(_element, drawing.shapes), "</svg>"])


def _element(shape: Shape) -> str:
    match shape:
        case Words(x, y, text, kind, anchor, True):
            place = f'transform="translate({_number(x)} {y:.1f}) rotate(-90)"'
            return f'<text {place} class="{kind}" text-anchor="{anchor}">{escape(text)}</text>'
        case Words(x, y, text, kind, anchor):
            return f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}" text-anchor="{anchor}">{escape(text)}</text>'
        case Line(x1, y1, x2, y2, kind):
            return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{kind}"/>'
        case Rectangle(x, y, width, height, colour, told):
            sides = f'x="{_number(x)}" y="{y:.1f}" width="{_number(width)}" height="{_number(height)}"'
            return _told(f'<rect {sides} rx="2" class="s{colour}"', "rect", told)
        case Dot(x, y, colour, told):
            return _told(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5" class="s{colour}"', "circle", told)
        case Curve(places, colour):
            path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
            return f'<polyline points="{path}" class="l{colour}"/>'


def _told(head: str, tag: str, told: str) -> str:
    return f"{head}><title>{escape(told)}</title></{tag}>" if told else f"{head}/>"


def _number(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.1f}"
