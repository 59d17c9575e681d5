"""Do datasets fit together: the same fields, the same classes?"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from headrace.errors import FormatError
from headrace.formats.contract import BaseDataset, check_contract
from headrace.types import Dataset

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from headrace.types import Field

__all__ = ["agreed_class_names", "agreed_schema", "checked_parts"]


def checked_parts(datasets: Iterable[Dataset], caller: str) -> tuple[Dataset, ...]:
    """Datasets as a tuple; TypeError for anything else, ValueError when there is none."""
    return _checked(datasets, caller)


def _checked(datasets: Any, caller: str) -> tuple[Dataset, ...]:
    if isinstance(datasets, Dataset):
        raise TypeError(f"{caller} takes a list of datasets, got one dataset; write {caller}([first, second])")
    parts = tuple(datasets)
    for part in parts:
        if isinstance(part, str | bytes):
            raise TypeError(f"{caller} takes datasets, got the text {part!r}; open it first with headrace.open")
        check_contract(part, Dataset, f"what {caller} got", BaseDataset)
    if not parts:
        raise ValueError(f"{caller} got an empty list; give one dataset at least")
    return parts


def agreed_schema(parts: Sequence[Dataset]) -> Mapping[str, Field]:
    """The fields that all parts have, in the order of the first; FormatError names the field and both files."""
    first = parts[0]
    for other in parts[1:]:
        for name in [*first.schema, *other.schema]:
            mine, theirs = first.schema.get(name), other.schema.get(name)
            if mine is None or theirs is None or not _is_same(mine, theirs):
                raise FormatError(
                    other.path,
                    problem=f"field {name!r} is {_words(theirs)}, and in {first.path} it is {_words(mine)}",
                    fix="Datasets that are put together need the same fields; leave this one out, or convert it.",
                )
    return MappingProxyType(dict(first.schema))


def _is_same(one: Field, other: Field) -> bool:
    # What an Image says besides being one is about how it is written.
    return one == other or (one.kind == other.kind == "image")


def _words(field: Field | None) -> str:
    return "not there" if field is None else repr(field)


def agreed_class_names(parts: Sequence[Dataset]) -> Mapping[str, Sequence[str]]:
    """The classes of each field, which must be the same wherever they have names; FormatError says what differs."""
    agreed: dict[str, tuple[Dataset, Sequence[str]]] = {}
    for part in parts:
        for field, names in part.class_names.items():
            owner, known = agreed.setdefault(field, (part, names))
            if owner is not part and list(known) != list(names):
                raise FormatError(
                    part.path,
                    problem=f"the classes of field {field!r} are others than in {owner.path}: {_differ(names, known)}",
                    fix="A label would mean two things; number the classes alike, and write one of the datasets anew.",
                )
    return {field: names for field, (_, names) in agreed.items()}


def _differ(names: Sequence[str], known: Sequence[str]) -> str:
    for number, (here, there) in enumerate(zip(names, known, strict=False)):
        if here != there:
            return f"class {number} is {here!r}, and there it is {there!r}"
    return f"there are {len(names):,}, and there are {len(known):,} there"
