"""Which field of one dataset belongs to which field of another."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.types import Field

__all__ = ["FieldPair", "pair_fields"]


class FieldPair(NamedTuple):
    """A field of each dataset, or of one of them; ``kind`` is the one of the first where both have it."""

    first: str | None
    second: str | None
    kind: str
    is_same_type: bool = False

    @property
    def is_in_both(self) -> bool:
        """Both datasets have it, so that its values can be compared."""
        return self.first is not None and self.second is not None

    @property
    def title(self) -> str:
        """What a page calls it."""
        names = [name for name in dict.fromkeys((self.first, self.second)) if name is not None]
        return " / ".join(names)


def pair_fields(a: Mapping[str, Field], b: Mapping[str, Field]) -> list[FieldPair]:
    """Fields of the same name; of the others those that are the only ones of their kind; then what only one has.

    A conversion may give fields other names: what is ``image`` in one format is ``jpg`` in another.

    Example:
        >>> from headrace.fields import Image, Int
        >>> [pair.title for pair in pair_fields({"image": Image(), "n": Int()}, {"jpg": Image(), "n": Int()})]
        ['image / jpg', 'n']
    """
    partner = {name: name for name in a if name in b}
    rest_a, rest_b = [name for name in a if name not in b], [name for name in b if name not in a]
    for name in rest_a:
        same = [other for other in rest_b if b[other].kind == a[name].kind]
        if len(same) == 1 and sum(a[other].kind == a[name].kind for other in rest_a) == 1:
            partner[name] = same[0]
    pairs = [_pair(a, b, name, partner.get(name)) for name in a]
    taken = set(partner.values())
    return pairs + [FieldPair(None, name, b[name].kind) for name in b if name not in taken]


def _pair(a: Mapping[str, Field], b: Mapping[str, Field], first: str, second: str | None) -> FieldPair:
    is_same_type = second is not None and _type(a[first]) == _type(b[second])
    return FieldPair(first, second, a[first].kind, is_same_type)


def _type(field: Field) -> tuple[object, ...]:
    """What a field is, apart from how it was written."""
    return field.kind, str(getattr(field, "dtype", "")), tuple(getattr(field, "shape", ()))
