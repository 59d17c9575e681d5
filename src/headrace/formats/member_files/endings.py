"""Endings of names: what a file is by its ending, and which ending a field's files get."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.codecs import npy
from headrace.codecs.image import SUFFIXES
from headrace.fields import Bytes, Image, Int, Json, NDArray, Text
from headrace.formats.decodes import Coded
from headrace.formats.values import decode_value, ending_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from headrace.types import Field

__all__ = ["SafeKeys", "array_field", "choose_endings", "field_of_ending", "is_picture"]

_NUMBERS = frozenset({"cls", "cls2", "class", "count", "index", "inx", "id"})
_TEXTS = frozenset({"txt", "text", "transcript"})
_JSONS = frozenset({"json", "jsn"})
_LABELS = frozenset({"label", "cls"})
_MAX_PART = 200


def is_picture(ending: str) -> bool:
    """The ending is that of a picture; of several, the last counts."""
    return "." + ending.rpartition(".")[2].lower() in SUFFIXES


def field_of_ending(ending: str, read_first: Callable[[], Sequence[bytes]]) -> Field:
    """What files with an ending are; the first of them are read where the ending alone does not say it.

    Example:
        >>> field_of_ending("txt", list), field_of_ending("cls", lambda: [b"3"]), field_of_ending("cls", lambda: [b"x"])
        (Text(), Int(), Text())
    """
    last = ending.rpartition(".")[2].lower()
    if is_picture(ending):
        return Image()
    if last in _NUMBERS:
        return Int() if _all_decode(Int(), read_first()) else Text()
    if last in _TEXTS:
        return Text()
    if last in _JSONS:
        return Json()
    return array_field(read_first()) if last == "npy" else Bytes()


def _all_decode(field: Field, first: Sequence[bytes]) -> bool:
    try:
        for data in first:
            decode_value(field, data)
    except ValueError:
        return False
    return True


def array_field(first: Sequence[bytes]) -> Field:
    """One dtype and shape, or arrays that differ."""
    try:
        found = {(array.dtype, array.shape) for array in map(npy.decode, first)}
    except ValueError:
        return Bytes()
    if len(found) != 1:
        return Coded("npy")
    ((dtype, shape),) = found
    return NDArray(dtype, shape) if shape and 0 not in shape else Coded("npy")


def choose_endings(fields: Mapping[str, Field]) -> dict[str, str]:
    """The ending of each field's files, as WebDataset names them; all are different.

    A field whose name says already what it is keeps it: ``jpg``, ``box.npy``. Otherwise the usual ending stands alone
    if no other field has it, and behind the field's name if one does.

    Example:
        >>> choose_endings({"image": Image(), "label": Int(), "id": Int(), "a": Text(), "b": Text(), "raw": Bytes()})
        {'image': 'jpg', 'label': 'cls', 'id': 'id', 'a': 'a.txt', 'b': 'b.txt', 'raw': 'raw'}
    """
    kept = {name: name for name, field in fields.items() if _says_what_it_is(name, field)}
    short = {name: _usual_ending(name, field) for name, field in fields.items() if name not in kept}
    taken = [*kept.values(), *short.values()]
    chosen = {name: kept.get(name) or _unshared(name, short[name], taken) for name in fields}
    lower = [ending.lower() for ending in chosen.values()]
    if double := sorted({ending for ending in lower if lower.count(ending) > 1}):
        raise ValueError(f"two fields would have files that end in .{double[0]}; rename one of them")
    return {name: ending.lower() for name, ending in chosen.items()}


def _says_what_it_is(name: str, field: Field) -> bool:
    if name != name.lower() or name.startswith(".") or name.endswith("."):
        return False
    if isinstance(field, NDArray) or (isinstance(field, Coded) and field.codec == "npy"):
        return name.rpartition(".")[2] == "npy"
    return type(field_of_ending(name, list)) is type(field)


def _usual_ending(name: str, field: Field) -> str:
    if isinstance(field, Int):
        return "cls" if name in _LABELS else f"{name}.cls"
    if isinstance(field, Image):
        return "png" if field.mode == "raw" else "jpg"
    if isinstance(field, Coded):
        return field.codec
    return ending_of(field) or name.strip(".") or "data"


def _unshared(name: str, ending: str, taken: list[str]) -> str:
    is_alone = sum(other.lower() == ending.lower() for other in taken) == 1
    return ending if is_alone else f"{name.strip('.')}.{ending}"


class SafeKeys:
    """Names of samples as names of files: without dots in the last part, never twice, never leading out.

    Example:
        >>> keys = SafeKeys()
        >>> keys.of("a/1.jpg", 0), keys.of("a/1.png", 1), keys.of("../x", 2), keys.of(None, 3)
        ('a/1', 'a/1-1', 'x', '000000003')
    """

    def __init__(self) -> None:
        self._taken: set[str] = set()

    def of(self, name: str | None, index: int) -> str:
        """The key of the sample with a number."""
        if name is None:
            return f"{index:09d}"
        key = wanted = _safe(name) or f"{index:09d}"
        count = 0
        while key in self._taken:
            count += 1
            key = f"{wanted}-{index}" if count == 1 else f"{wanted}-{index}-{count}"
        self._taken.add(key)
        return key


def _safe(name: str) -> str:
    cleaned = "".join(char if char.isprintable() and char != "\\" else "_" for char in name)
    parts = [part for part in cleaned.split("/") if part not in ("", ".", "..")]
    if not parts:
        return ""
    stem, _, ending = parts[-1].rpartition(".")
    parts[-1] = (stem if stem and is_picture(ending) else parts[-1]).replace(".", "_")
    parts = [f"x{part}" if part.startswith((".", "__")) else part for part in parts]
    return "/".join(part[:_MAX_PART] for part in parts)
