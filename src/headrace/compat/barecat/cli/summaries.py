"""Many numbered names as one line."""

from __future__ import annotations

import re
from collections import defaultdict

__all__ = ["summarize"]

_ENOUGH = 5
_PIECES = re.compile(r"\d+|\D+")


def summarize(names: list[str]) -> list[str]:
    """Names that differ in one number as a line with stars, if there are five or more; the others as they are.

    Example:
        >>> summarize(["a.txt", *(f"frame_{n:03}.jpg" for n in range(7))])
        ['a.txt', 'frame_***.jpg  (7 files, 000\u2013006)']
    """
    shapes: defaultdict[tuple[tuple[bool, str], ...], list[list[str]]] = defaultdict(list)
    for name in names:
        pieces = _PIECES.findall(name)
        # Decimal digits only: what \d finds is a number here, and numbers count by their length.
        shape = tuple((piece.isdigit(), "#" * len(piece) if piece.isdigit() else piece) for piece in pieces)
        shapes[shape].append(pieces)
    lines: list[str] = []
    for shape, found in sorted(shapes.items(), key=lambda item: item[1][0]):
        numbers = [position for position, (is_number, _) in enumerate(shape) if is_number]
        lines += _lines(found, numbers) if numbers else ["".join(pieces) for pieces in found]
    return lines


def _lines(found: list[list[str]], numbers: list[int]) -> list[str]:
    varying = max(numbers, key=lambda position: len({pieces[position] for pieces in found}))
    groups: defaultdict[tuple[str, ...], list[list[str]]] = defaultdict(list)
    for pieces in found:
        groups[(*pieces[:varying], *pieces[varying + 1 :])].append(pieces)
    lines: list[str] = []
    for _, group in sorted(groups.items()):
        if len(group) < _ENOUGH:
            lines += ["".join(pieces) for pieces in group]
            continue
        values = [pieces[varying] for pieces in group]
        stars = ["*" * len(values[0]) if position == varying else piece for position, piece in enumerate(group[0])]
        lines.append(f"{''.join(stars)}  ({len(group)} files, {min(values)}\u2013{max(values)})")
    return lines
