"""Which fields and facts of a dataset go into a target: what it cannot hold is named before anything is written."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace.codecs import jpeg
from headrace.fields import Image
from headrace.formats.contract import values_in_order
from headrace.progress import format_count
from headrace.transfer.files_writer import files_per_sample
from headrace.transfer.samples import Selection

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.formats.contract import Format
    from headrace.transfer.samples import PictureChange, SampleOptions, SampleOrigin
    from headrace.transfer.ways import Ways
    from headrace.types import Field

__all__ = ["select"]

_FILE_FACTS = ("class_names",)  # what files can say: names of directories


def select(origin: SampleOrigin, options: SampleOptions, target: Format | None, ways: Ways) -> Selection:
    """Choose what goes into a target.

    Args:
        origin: where samples come from.
        options: which samples, and how.
        target: the format that is written; None for files.
        ways: commands that an error may name.

    Raises:
        ValueError: the target cannot hold all fields, and the options do not say which.
    """
    columns = _columns(origin, options)
    fields = {new: origin.schema[old] for new, old in columns.items()}
    _check_fields(fields, columns, origin.path, target, ways)
    left_out = _fields_left_out(origin, columns)
    if options.pictures is not None:
        fields = _changed_pictures(fields, options.pictures, target, ways)
    elif target is not None:
        left_out += _pictures_changed(origin, fields, columns, target, ways)
    if target is not None and not target.holds_raw_pictures:
        fields = {name: replace(kind, mode="jpg") if isinstance(kind, Image) else kind for name, kind in fields.items()}
    about, no_place = _facts(origin, columns, target, ways)
    has_names = options.names and origin.keys is not None and (target is None or target.holds_names)
    if origin.keys is not None and not has_names:
        reason = f"{ways.target} has no place for them" if options.names else "they were not asked for"
        no_place.append(f"names of {format_count(len(origin.keys), 'sample')}: {reason}")
    return Selection(
        origin=origin,
        options=options,
        fields=fields,
        columns=columns,
        about=about,
        left_out=left_out + no_place,
        has_names=has_names,
    )


def _columns(origin: SampleOrigin, options: SampleOptions) -> dict[str, str]:
    """The chosen fields: names in the origin by names in the target."""
    schema, renamed = origin.schema, options.renamed or {}
    for name in (*(options.fields or ()), *renamed):
        if name not in schema:
            raise KeyError(f"no field {name!r} in {origin.path}; the fields are {', '.join(schema)}")
    chosen: dict[str, str] = {}
    for name in schema:
        if (options.fields is not None and name not in options.fields) or renamed.get(name) == "":
            continue
        new = renamed.get(name, name)
        if new in chosen:
            raise ValueError(f"the fields {chosen[new]!r} and {name!r} would both be called {new!r}")
        chosen[new] = name
    if not chosen:
        raise ValueError(f"no field of {origin.path} is left; the fields are {', '.join(schema)}")
    return chosen


def _fields_left_out(origin: SampleOrigin, columns: Mapping[str, str]) -> list[str]:
    chosen, count = set(columns.values()), len(origin.sources())
    return [
        f"field {name} ({format_count(count, 'value')}): only {', '.join(columns.values())} was asked for"
        for name in origin.schema
        if name not in chosen
    ]


def _check_fields(
    fields: Mapping[str, Field], columns: Mapping[str, str], path: str, target: Format | None, ways: Ways
) -> None:
    """ValueError that names all fields that the target cannot hold."""
    if target is None:
        files_per_sample(fields)
        return
    if target.max_fields is not None and len(fields) > target.max_fields:
        most = "one field" if target.max_fields == 1 else format_count(target.max_fields, "field")
        kinds = [kind.kind for kind in fields.values()]
        fit = [name for name, kind in zip(columns.values(), kinds, strict=True) if _is_held(kind, target)]
        raise ValueError(
            f"{ways.target} can hold {most}, and {path} has {', '.join(columns.values())}. Leave the others out: "
            f"{ways.with_field([*fit, *columns.values()][0])}. Or keep all of them: {ways.keeping(len(fields), kinds)}"
        )
    if bad := [name for name, kind in fields.items() if not _is_held(kind.kind, target)]:
        words = ", ".join(f"{columns[name]} ({fields[name].kind})" for name in bad)
        without = ways.without(columns[name] for name in bad)
        leave = f"Leave it out: {without}. Or keep" if len(bad) < len(fields) else "Keep"
        keep = ways.keeping(len(fields), [kind.kind for kind in fields.values()])
        raise ValueError(f"{ways.target} cannot hold {words}. {leave} all of it: {keep}")
    if target.check_fields is not None:
        try:
            target.check_fields(fields)
        except ValueError as error:
            first = next(iter(columns.values()))
            raise ValueError(
                f"{ways.target} cannot hold these fields: {error}. Give a field another name, or leave one out, with "
                f"--map: {ways.renaming(first)}"
            ) from None


def _is_held(kind: str, target: Format) -> bool:
    return target.field_kinds is None or kind in target.field_kinds


def _changed_pictures(
    fields: dict[str, Field], change: PictureChange, target: Format | None, ways: Ways
) -> dict[str, Field]:
    if not any(isinstance(kind, Image) for kind in fields.values()):
        raise ValueError("image_mode=, quality= and max_side= are for pictures, and there is no field of them")
    if target is not None and not target.holds_raw_pictures and change.mode not in (None, "jpg"):
        raise ValueError(f"{ways.target} holds pictures as files only; image_mode must be 'jpg', got {change.mode!r}")
    return {name: change.of(kind) if isinstance(kind, Image) else kind for name, kind in fields.items()}


def _pictures_changed(
    origin: SampleOrigin, fields: Mapping[str, Field], columns: Mapping[str, str], target: Format, ways: Ways
) -> list[str]:
    """What becomes of pictures that the target cannot hold as they are, by the kind of the first of them."""
    if target.holds_picture_files:
        return []
    lines = []
    for name, kind in fields.items():
        if not isinstance(kind, Image) or (kind.mode != "jpg" and target.holds_raw_pictures):
            continue
        value = _first_value(origin, columns[name])
        if isinstance(value, np.ndarray) or (isinstance(value, bytes) and not jpeg.is_jpeg(value)):
            way = "; --image-mode raw keeps them" if target.holds_raw_pictures else ""
            lines.append(f"exact pixels of {name}: pictures that are no JPEG become JPEG in {ways.target}{way}")
    return lines


def _first_value(origin: SampleOrigin, field: str) -> Any:
    """The value of a field in the first sample; None where there is none, or it cannot be read."""
    names = list(origin.schema)
    with contextlib.suppress(Exception):  # told when it is converted, with all others that cannot be read
        return values_in_order(origin.sources()[0], names, 0)[names.index(field)]
    return None


def _facts(
    origin: SampleOrigin, columns: Mapping[str, str], target: Format | None, ways: Ways
) -> tuple[dict[str, Any], list[str]]:
    """What the writer is told about the whole dataset, and what it has no place for."""
    # Classes that are texts, as a column of words has them, are told by the values.
    numbered = {new: old for new, old in columns.items() if origin.schema[old].kind == "int"}
    classes = {new: origin.class_names[old] for new, old in numbered.items() if old in origin.class_names}
    facts: dict[str, Any] = {"class_names": classes, "metadata": getattr(origin, "metadata", None)}
    about, left_out = {}, []
    for name, value in facts.items():
        if value is None or value == {}:
            continue
        if name in (_FILE_FACTS if target is None else target.writer_options):
            about[name] = value
        else:
            inside = f" ({', '.join(map(str, value))})" if isinstance(value, dict) else ""
            left_out.append(f"{name.replace('_', ' ')}{inside}: {ways.target} has no place for it")
    return about, left_out
