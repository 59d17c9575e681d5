"""``headrace.open``: find the format of a path or URL and open it.

Of a URL the ending says the format, and no store is asked before the object is opened: a question is a round trip.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headrace.codecs.image import SUFFIXES
from headrace.errors import UnknownFormatError
from headrace.formats.content import explained, first_bytes
from headrace.formats.contract import Format
from headrace.formats.file_lists import MAX_FILES, find_files, is_pattern, natural_key
from headrace.formats.sets.concatenation import ConcatDataset
from headrace.formats.shard_log import refuse_unfinished
from headrace.registry import PluginTable
from headrace.storage import RemotePath, as_path, is_remote, list_stored, name_part, storage_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from headrace.errors import PathLike
    from headrace.storage import StorageOptions
    from headrace.types import Dataset

__all__ = ["FORMATS", "Place", "all_formats", "find_format", "format_of_name", "locate", "open_dataset", "open_place"]

FORMATS: PluginTable[Format] = PluginTable("headrace.formats", kind="format", type=Format)
_HEAD_BYTES = 4096
_OPENED_AT_ONCE = 32


def open_dataset(
    path: PathLike | Sequence[PathLike],
    *,
    format: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
    cache_dir: PathLike | None = None,
    cache_size: int | str | None = None,
    **options: Any,
) -> Dataset:
    """Open a dataset of any known format, on this machine or in an object store.

    Many files of one format and the same fields are one dataset: as a list, as a pattern such as ``train-*.beton``
    (sorted by name, numbers as numbers), as a brace list such as ``train-{0000..0009}.beton``, or as a folder with
    nothing else in it. A file whose name has such characters is meant itself, if it is there.

    Paths may be URLs: ``s3://``, ``gs://``, ``az://``, ``https://``, ``http://`` and ``file://``. A folder in a store
    ends in a slash. What is read is brought here when it is needed, and nothing else.

    Args:
        path: a file or folder, a pattern, or a list of them; each may be a URL.
        format: name of the format; by default it is found by the name's ending, then by the content.
        storage_options: how a store is reached, by name: credentials, region, endpoint and so on, as obstore takes them
            for the kind of store. What is not given comes from the environment. Local paths do not need them.
        cache_dir: folder on a local disk that keeps what was read from stores, for all processes of the machine.
        cache_size: bytes that this folder may take, a number or text such as ``"100GB"``.
        **options: what the format's reader takes, such as ``annex`` and ``checksums`` for a .beton; of many files, for
            each. ``follow_links`` (also read an annex and shards that are symbolic links) may be given for every
            format.

    Raises:
        FileNotFoundError: there is nothing at the path, nothing matches, or a file of a list is missing.
        UnknownFormatError: no format fits.
        FormatError: the file is damaged, files do not have the same fields, or a set is still being written.
        RemoteError: a store does not answer, or does not let us in.

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
    return open_place(
        locate(path, format=format, storage=storage_of(storage_options, cache_dir, cache_size)), **options
    )


def open_place(place: Place, **options: Any) -> Dataset:
    """Open what ``locate`` has found."""
    if place.is_set:
        return _open_parts(place, options)
    with explained(place.paths[0], all_formats):
        return place.format.open_checked(list(place.paths) if place.is_list else place.paths[0], **options)


def _open_parts(place: Place, options: dict[str, Any]) -> Dataset:
    opened: list[Dataset] = []

    def open_part(path: str) -> Dataset:
        with explained(path, all_formats):
            dataset = place.format.open_checked(path, **options)
        opened.append(dataset)
        return dataset

    try:
        is_here = not any(map(is_remote, place.paths))
        parts = tuple(map(open_part, place.paths) if is_here else _in_threads(open_part, place.paths))
        return parts[0] if len(parts) == 1 else ConcatDataset(parts, place.name)
    except BaseException:
        for dataset in opened:
            dataset.close()
        raise


def _in_threads(open_part: Callable[[str], Dataset], paths: Sequence[str]) -> list[Dataset]:
    """Open many objects; each takes a few round trips, so many of them at a time."""
    with ThreadPoolExecutor(min(len(paths), _OPENED_AT_ONCE), "headrace-open") as pool:
        return list(pool.map(open_part, paths))


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


def locate(
    path: PathLike | Sequence[PathLike], *, format: str | None = None, storage: StorageOptions | None = None
) -> Place:
    """Find what a path, a pattern or a list of them leads to.

    Args:
        path: a file or folder, a pattern, or a list of them; each may be a URL.
        format: name of the format, if it is known.
        storage: how the stores of URLs are reached; by default as the path itself says.

    Raises:
        FileNotFoundError: there is nothing at the path, nothing matches, or a file of a list is missing. An object of a
            store that is named itself is not looked for.
        UnknownFormatError: no format fits, or files are of different formats.
    """
    given = FORMATS.load(format) if format is not None else None
    if not isinstance(path, str | os.PathLike):
        return _locate_list([as_path(one, storage) for one in path], given)
    name = as_path(path, storage)
    if is_pattern(name) and not _is_there(name):
        found, paths = _of_one_format(name, find_files(name, _is_there, refuse_unfinished), given)
        return Place(format=found, paths=paths, name=name, is_set=True)
    parts = _parts_in(name, given) if _is_folder(name) else None
    if parts is not None:
        return Place(format=parts[0], paths=parts[1], name=name, is_set=True)
    return Place(format=given or find_format(name), paths=(name,))


def _locate_list(names: list[str], given: Format | None) -> Place:
    if not names:
        raise ValueError("path is an empty list; give one file at least")
    is_plain = all(_is_there(name) or not is_pattern(name) for name in names)
    if not is_plain:
        names = [
            one
            for name in names
            for one in (find_files(name, _is_there, refuse_unfinished) if is_pattern(name) else [name])
        ]
    found = given or find_format(names[0])
    if is_plain and found.takes_lists:
        return Place(format=found, paths=tuple(names), is_list=True)
    if given is None:
        _check_formats([(name, find_format(name)) for name in names])
    return Place(format=found, paths=tuple(names), is_set=True)


def _files_of(name: str) -> list[str]:
    return find_files(name, _is_there, refuse_unfinished) if is_pattern(name) else [name]


def _is_folder(name: str) -> bool:
    return name.endswith("/") if is_remote(name) else os.path.isdir(name)


def _is_there(name: str) -> bool:
    if is_remote(name):
        return False  # opening it will tell; and a pattern is looked up by one list
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
    if not isinstance(folder, RemotePath) and any(known.matches(folder, b"") for known in claims):
        return None
    every = _names_in(folder)
    names = [name for name in every if not name.startswith(".")]
    found = {name: known for name in names if (known := format_of_name(name)) is not None}
    kinds = {known.name for known in found.values()}
    is_plain = all(name in found or _lies_beside(name, found) for name in names)
    is_set = len(kinds) == 1 and (given is None or given.name in kinds) and len(found) <= MAX_FILES and is_plain
    if not is_set:
        if isinstance(folder, RemotePath):
            raise _no_parts(folder, names, kinds)
        return None
    refuse_unfinished(_inside(folder, ""), every, list(found))
    paths = tuple(_inside(folder, name) for name in sorted(found, key=natural_key))
    return next(iter(found.values())), paths


def _names_in(folder: str) -> list[str]:
    if not isinstance(folder, RemotePath):
        return os.listdir(folder)
    return [path[len(folder) :] for path in list_stored(folder, recursive=False)]


def _inside(folder: str, name: str) -> str:
    return folder + name if isinstance(folder, RemotePath) else os.path.join(folder, name)


def _no_parts(folder: str, names: list[str], kinds: set[str]) -> Exception:
    if not names:
        return FileNotFoundError(f"{folder}: there is nothing in this folder")
    ending = next((os.path.splitext(name)[1] for name in names if format_of_name(name) is not None), ".tar")
    what = f"files of {', '.join(sorted(kinds))}" if len(kinds) > 1 else f"{names[0]} and {len(names) - 1:,} more"
    return UnknownFormatError(
        f"{folder}: a folder of a store is one dataset if all files in it are of one format, and there are {what}. "
        f"Name those that are meant, such as {folder}*{ending}"
    )


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
    name = name_part(path).lower()
    ending = os.path.splitext(name)[1][1:]
    if ending in FORMATS.names() and name.endswith((likely := FORMATS.load(ending)).suffixes):
        return likely  # most formats are called as their ending is: the others need not be imported
    return next((known for known in all_formats() if name.endswith(known.suffixes)), None)


def find_format(path: PathLike, *, must_exist: bool = True) -> Format:
    """The format of a path: by its ending, or else by its first bytes; of a URL with an ending, by that alone."""
    name = as_path(path)
    if not name:
        raise ValueError("the path is empty")
    named = format_of_name(name)
    if named is not None and (not must_exist or is_remote(name) or (named.exists(name) and not os.path.isdir(name))):
        return named
    if must_exist:
        if not is_remote(name) and not os.path.exists(name):
            raise FileNotFoundError(f"{name} does not exist")
        head = first_bytes(name, _HEAD_BYTES)
        for candidate in sorted(all_formats(), key=lambda known: not known.suffixes):  # any folder is a folder
            if candidate.matches(name, head):
                return candidate
    known = ", ".join(candidate.suffixes[0] for candidate in all_formats() if candidate.suffixes)
    message = f"{name}: no format is known for this. Known endings: {known}."
    raise UnknownFormatError(message)
