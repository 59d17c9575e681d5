"""``headrace.open``: find the format of a path and open it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headrace.codecs.image import SUFFIXES
from headrace.errors import UnknownFormatError
from headrace.formats.content import explained
from headrace.formats.contract import Format
from headrace.formats.file_lists import MAX_FILES, find_files, is_pattern, natural_key
from headrace.formats.sets.concatenation import ConcatDataset
from headrace.registry import PluginTable
from headrace.storage import open_stream

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from headrace.errors import PathLike
    from headrace.types import Dataset

__all__ = ["FORMATS", "Place", "all_formats", "find_format", "format_of_name", "locate", "open_dataset"]

FORMATS: PluginTable[Format] = PluginTable("headrace.formats", kind="format", type=Format)
_HEAD_BYTES = 4096


def open_dataset(path: PathLike | Sequence[PathLike], *, format: str | None = None, **options: Any) -> Dataset:
    """Open a dataset of any known format.

    Many files of one format and the same fields are one dataset: as a list, as a pattern such as ``train-*.beton``
    (sorted by name, numbers as numbers), as a brace list such as ``train-{0000..0009}.beton``, or as a folder with
    nothing else in it. A file whose name has such characters is meant itself, if it is there.

    Args:
        path: a file or folder, a pattern, or a list of them.
        format: name of the format; by default it is found by the name's ending, then by the content.
        **options: what the format's reader takes, such as ``annex`` and ``checksums`` for a .beton; of many files, for
            each. ``follow_links`` (also read an annex and shards that are symbolic links) may be given for every
            format.

    Raises:
        FileNotFoundError: there is nothing at the path, nothing matches, or a file of a list is missing.
        UnknownFormatError: no format fits.
        FormatError: the file is damaged, or files do not have the same fields.

    Example:
        >>> import os, tempfile, headrace
        >>> folder = tempfile.mkdtemp()
        >>> headrace.write(f"{folder}/numbers.beton", range(5), fields={"n": headrace.Int()})
        >>> dataset = headrace.open(f"{folder}/numbers.beton")
        >>> len(dataset), dataset[-1].n, [s.n for s in dataset[1:4]], [s.n for s in dataset[[3, 0]]]
        (5, 4, [1, 2, 3], [3, 0])
        >>> headrace.write(f"{folder}/more.beton", range(5, 8), fields={"n": headrace.Int()})
        >>> len(headrace.open(f"{folder}/*.beton")), len(headrace.open(f"{folder}/{{numbers,more}}.beton"))
        (8, 8)
    """
    place = locate(path, format=format)
    if place.is_set:
        return _open_parts(place, options)
    with explained(place.paths[0], all_formats):
        return place.format.open_checked(list(place.paths) if place.is_list else place.paths[0], **options)


def _open_parts(place: Place, options: dict[str, Any]) -> Dataset:
    parts: list[Dataset] = []
    try:
        for part in place.paths:
            with explained(part, all_formats):
                parts.append(place.format.open_checked(part, **options))
        return parts[0] if len(parts) == 1 else ConcatDataset(tuple(parts), place.name)
    except BaseException:
        for opened in parts:
            opened.close()
        raise


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """What a path, a pattern or a list leads to: one dataset, or many files that are parts of one.

    ``is_set`` says that each of the paths is opened for itself; ``is_list`` that the format takes all of them.
    """

    format: Format
    paths: tuple[str, ...]
    name: str | None = None
    is_set: bool = False
    is_list: bool = False


def locate(path: PathLike | Sequence[PathLike], *, format: str | None = None) -> Place:
    """Find what a path, a pattern or a list of them leads to.

    Raises:
        FileNotFoundError: there is nothing at the path, nothing matches, or a file of a list is missing.
        UnknownFormatError: no format fits, or files are of different formats.
    """
    given = FORMATS.load(format) if format is not None else None
    if not isinstance(path, str | os.PathLike):
        return _locate_list([os.fspath(one) for one in path], given)
    name = os.fspath(path)
    if is_pattern(name) and not _is_there(name):
        found, paths = _of_one_format(name, find_files(name, _is_there), given)
        return Place(format=found, paths=paths, name=name, is_set=True)
    parts = _parts_in(name, given) if os.path.isdir(name) else None
    if parts is not None:
        return Place(format=parts[0], paths=parts[1], name=name, is_set=True)
    return Place(format=given or find_format(name), paths=(name,))


def _locate_list(names: list[str], given: Format | None) -> Place:
    if not names:
        raise ValueError("path is an empty list; give one file at least")
    is_plain = all(_is_there(name) or not is_pattern(name) for name in names)
    if not is_plain:
        names = [one for name in names for one in (find_files(name, _is_there) if is_pattern(name) else [name])]
    found = given or find_format(names[0])
    if is_plain and found.takes_lists:
        return Place(format=found, paths=tuple(names), is_list=True)
    if given is None:
        _check_formats([(name, find_format(name)) for name in names])
    return Place(format=found, paths=tuple(names), is_set=True)


def _is_there(name: str) -> bool:
    named = format_of_name(name)
    return os.path.lexists(name) or (named is not None and named.exists(name))


def _of_one_format(name: str, paths: list[str], given: Format | None) -> tuple[Format, tuple[str, ...]]:
    """Those of the paths that a pattern has matched that are datasets, and their format.

    What lies beside a dataset, such as its annex, has no ending of a format; such paths count only where no other does.
    """
    if given is not None:
        ending = [path for path in paths if path.lower().endswith(given.suffixes)] if given.suffixes else []
        return given, tuple(ending or paths)
    named = [(path, known) for path in paths if (known := format_of_name(path)) is not None]
    named = named or [(path, find_format(path)) for path in paths]
    _check_formats(named)
    return named[0][1], tuple(path for path, _ in named)


def _check_formats(named: list[tuple[str, Format]]) -> None:
    first, expected = named[0]
    for path, known in named:
        if known is not expected:
            raise UnknownFormatError(
                f"{first} is a {expected.name} and {path} a {known.name}; many files are one dataset only if they are "
                "of one format. Open each alone, and put them together with headrace.concat"
            )


def _parts_in(folder: str, given: Format | None) -> tuple[Format, tuple[str, ...]] | None:
    """The datasets in a folder with nothing else in it, all of one format; None when it is no such folder."""
    formats = [known for known in all_formats() if known.suffixes]
    claims = formats if given is None else [given]
    if any(known.matches(folder, b"") for known in claims):
        return None
    names = [name for name in os.listdir(folder) if not name.startswith(".")]
    found = {name: known for name in names if (known := format_of_name(name)) is not None}
    kinds = {known.name for known in found.values()}
    if len(kinds) != 1 or (given is not None and given.name not in kinds) or len(found) > MAX_FILES:
        return None
    if not all(name in found or _lies_beside(name, found) for name in names):
        return None
    paths = tuple(os.path.join(folder, name) for name in sorted(found, key=natural_key))
    return next(iter(found.values())), paths


def _lies_beside(name: str, datasets: Mapping[str, Format]) -> bool:
    """A file belongs to a dataset: its name begins with that of one, or is the same but for the ending."""
    stem, ending = os.path.splitext(name)
    if ending.lower() in SUFFIXES:
        return False  # a folder of pictures
    return any(name[:end] in datasets for end in range(1, len(name))) or any(
        stem + suffix in datasets for known in set(datasets.values()) for suffix in known.suffixes
    )


def all_formats() -> list[Format]:
    """Every known format, by name."""
    return [FORMATS.load(known) for known in FORMATS.names()]


def format_of_name(path: PathLike) -> Format | None:
    """The format that the ending of a path names, or None; the path need not exist."""
    name = os.fspath(path).lower()
    ending = os.path.splitext(name)[1][1:]
    if ending in FORMATS.names() and name.endswith((likely := FORMATS.load(ending)).suffixes):
        return likely  # most formats are called as their ending is: the others need not be imported
    return next((known for known in all_formats() if name.endswith(known.suffixes)), None)


def find_format(path: PathLike, *, must_exist: bool = True) -> Format:
    """The format of a path: by its ending, or else by its first bytes."""
    name = os.fspath(path)
    if not name:
        raise ValueError("the path is empty")
    named = format_of_name(name)
    if named is not None and (not must_exist or (named.exists(name) and not os.path.isdir(name))):
        return named
    if must_exist:
        if not os.path.exists(name):
            raise FileNotFoundError(f"{name} does not exist")
        head = _first_bytes(name)
        for candidate in sorted(all_formats(), key=lambda known: not known.suffixes):  # any folder is a folder
            if candidate.matches(name, head):
                return candidate
    known = ", ".join(candidate.suffixes[0] for candidate in all_formats() if candidate.suffixes)
    message = f"{name}: no format is known for this. Known endings: {known}."
    raise UnknownFormatError(message)


def _first_bytes(path: str) -> bytes:
    if os.path.isdir(path):
        return b""
    with open_stream(path) as file:
        return file.read(_HEAD_BYTES)
