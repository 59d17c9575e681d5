"""Values of any kind as plain things that JSON holds and a page draws, bounded in size.

What is shown has a key ``as`` that names how: ``number``, ``text``, ``tree``, ``bytes``, ``array`` or ``picture``.
Numbers are texts, for JavaScript has fewer of them than Python; what is cut says how much there was.
"""

from __future__ import annotations

import reprlib
from collections.abc import Collection, Mapping, Sequence
from typing import Any, TypeGuard

import numpy as np

from headrace.progress import format_count
from headrace.viewer.answers import shown_text
from headrace.viewer.arrays import show_array

__all__ = ["number_text", "show_brief", "show_bytes", "show_text", "show_tree", "show_value"]

_MOST_TEXT = 20_000
_MOST_HEX_BYTES = 4096
_MOST_NODES, _MOST_DEPTH, _MOST_CHILDREN, _MOST_LEAF = 2000, 32, 200, 2000
_MOST_BITS = 8192  # longer numbers take Python long to write out, and are refused by it


_SHORT = reprlib.Repr()
_SHORT.maxdict = _SHORT.maxlist = 4


def show_value(value: object, kind: str, classes: Sequence[str] | None = None) -> dict[str, Any]:
    """One value of a field, as its kind and its type suggest."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, np.ndarray):
        return show_array(value)
    if isinstance(value, bool | int | float) and kind != "json":
        return _show_number(value, classes)
    if isinstance(value, bytes | bytearray | memoryview):
        return show_bytes(value)
    if isinstance(value, str) and kind != "json":
        return show_text(value)
    return {"as": "tree", "tree": show_tree(value)}


def _show_number(value: float, classes: Sequence[str] | None) -> dict[str, Any]:
    shown: dict[str, Any] = {"as": "number", "text": number_text(value)}
    if classes is not None and type(value) is int and 0 <= value < len(classes):
        shown["class"] = shown_text(str(classes[value]), 1000)
    return shown


def show_brief(value: object, classes: Sequence[str] | None = None) -> str:
    """A value in a few words."""
    shown = show_value(value, "", classes)
    match shown["as"]:
        case "number":
            if isinstance(value, float | np.floating):
                return f"{float(value):.6g}"
            return f"{shown['text']} ({shown['class']})" if "class" in shown else str(shown["text"])
        case "text":
            return shown_text(str(value), 200)
        case "bytes":
            return format_count(shown["length"], "byte")
        case "array":
            return _brief_array(shown)
        case _:
            return shown_text(_SHORT.repr(value), 200)


def _brief_array(shown: Mapping[str, Any]) -> str:
    shape = shown["shape"]
    form = f"{shown['dtype']}, {' x '.join(map(str, shape)) or 'one value'}"
    if len(shape) > 1:
        return form
    cells = shown["table"]["rows"][0]
    return f"{form}: {', '.join([*cells[:8], '…'] if len(cells) > 8 else cells)}"


def number_text(value: float) -> str:
    """A number in full; one that would fill pages by how long it is."""
    if isinstance(value, int) and value.bit_length() > _MOST_BITS:
        return f"a whole number of {value.bit_length():,} bits"
    return repr(value)


def show_text(text: str) -> dict[str, Any]:
    """A text, cut where it is long."""
    return {"as": "text", "text": shown_text(text, _MOST_TEXT), "length": len(text)}


def show_bytes(data: bytes | bytearray | memoryview) -> dict[str, Any]:
    """The first bytes as rows of hexadecimal numbers, and as text where they are one."""
    view = memoryview(data).cast("B")
    head = bytes(view[:_MOST_HEX_BYTES])
    rows = [head[at : at + 16] for at in range(0, len(head), 16)]
    return {
        "as": "bytes",
        "length": len(view),
        "is_cut": len(view) > len(head),
        "rows": [[row.hex(" "), "".join(chr(b) if 32 <= b < 127 else "." for b in row)] for row in rows],
        "text": shown_text(head.decode(errors="replace")) if _is_text(head) else None,
    }


def _is_text(head: bytes) -> bool:
    try:
        text = head.decode() if len(head) < _MOST_HEX_BYTES else head[:-4].decode(errors="strict")
    except UnicodeDecodeError:
        return False
    return bool(text) and all(char.isprintable() or char in "\n\r\t" for char in text)


def show_tree(value: object) -> dict[str, Any]:
    """Lists, maps and what is in them, as far as a bounded number of nodes reaches, breadth before depth."""
    root: dict[str, Any] = {}
    waiting: list[tuple[object, dict[str, Any], int]] = [(value, root, 0)]
    for inner, node, depth in waiting:  # grows as it goes
        if not _is_many(inner):
            node.update(_leaf(inner))
            continue
        node.update({"kind": "map" if isinstance(inner, Mapping) else "list", "length": len(inner), "items": []})
        if depth >= _MOST_DEPTH:
            continue
        for key, child in _first_items(inner, min(_MOST_CHILDREN, _MOST_NODES - len(waiting))):
            own: dict[str, Any] = {}
            node["items"].append([key, own])
            waiting.append((child, own, depth + 1))
    return root


def _is_many(value: object) -> TypeGuard[Collection[Any]]:
    kinds = (Mapping, Sequence, set, frozenset)
    return isinstance(value, kinds) and not isinstance(value, str | bytes | bytearray | memoryview)


def _first_items(value: Any, most: int) -> list[tuple[str, object]]:
    pairs = value.items() if isinstance(value, Mapping) else enumerate(value)
    return [(shown_text(str(key), 200), child) for (key, child), _ in zip(pairs, range(most), strict=False)]


def _leaf(value: object) -> dict[str, Any]:
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool):
        return {"kind": "word", "text": {None: "null", True: "true", False: "false"}[value]}
    if isinstance(value, int | float):
        return {"kind": "number", "text": number_text(value)}
    if isinstance(value, str):
        return {"kind": "text", "text": shown_text(value, _MOST_LEAF), "length": len(value)}
    if isinstance(value, np.ndarray):
        return {"kind": "other", "text": f"array of {value.dtype}, {' x '.join(map(str, value.shape)) or 'one value'}"}
    if isinstance(value, bytes | bytearray | memoryview):
        return {"kind": "other", "text": f"{format_count(len(value), 'byte')}: {bytes(value[:32]).hex(' ')}"}
    return {"kind": "other", "text": shown_text(f"{type(value).__name__}: {_described(value)}", _MOST_LEAF)}


def _described(value: object) -> str:
    try:
        return str(value)
    except Exception as error:  # whatever a class of the user's does there
        return f"its text cannot be made ({type(error).__name__})"
