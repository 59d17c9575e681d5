"""The index of a packed folder: the last sample of the file.

It is the nine bytes ``piouhjgbr`` and a pickle of nested OrderedDicts: a name gives the number of a sample, or the dict
of a folder. It is not unpickled (see codecs.pickle_values). Folders that are reached twice, numbers of no
sample, names of no file, and sizes beyond the limits are refused.
"""

from __future__ import annotations

import pickle
from collections import OrderedDict
from typing import TYPE_CHECKING, TypeAlias, cast

from headrace.codecs.pickle_values import RefusedPickleError, load_values
from headrace.errors import FormatError
from headrace.progress import format_count

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from headrace.formats.ffr.reader import FfrReader

__all__ = ["INDEX_MAGIC", "Tree", "build_tree", "find", "list_files", "pack_index", "read_index", "walk"]

INDEX_MAGIC = b"piouhjgbr"
MAX_INDEX_BYTES = 1 << 30
MAX_DEPTH = 1000
# What all paths together may take: honest indices stay below, and a folder with a name of a million letters and a
# hundred thousand files does not.
_LEAST_NAMES, _NAMES_FACTOR = 64 << 20, 32
_PROTOCOL = 4  # what FFRecord's files have on Python 3.8 to 3.13

Tree: TypeAlias = "OrderedDict[str, int | Tree]"


def read_index(reader: FfrReader) -> Tree:
    """Read and check the index of a packed folder; FormatError when there is none or it is not harmless."""
    path, count = reader.paths[0], len(reader)
    if count == 0:
        raise FormatError(path, problem="the file has no samples, so it is not a packed folder")
    size = int(reader.sizes([count - 1])[0])
    if size > MAX_INDEX_BYTES:
        raise FormatError(
            path,
            problem=f"an index of {format_count(size, 'byte')} is larger than {MAX_INDEX_BYTES}, the most allowed",
        )
    (data,) = reader.read_bytes([count - 1])
    if not data.startswith(INDEX_MAGIC):
        raise FormatError(
            path,
            problem=f"a packed folder ends with an index that begins with {INDEX_MAGIC!r}, found {data[:9]!r}",
            fix="Open it as a plain .ffr file.",
        )
    try:
        most = _LEAST_NAMES + _NAMES_FACTOR * len(data)
        return _checked_tree(load_values(data[len(INDEX_MAGIC) :]), count - 1, most)
    except RefusedPickleError as error:
        raise FormatError(
            path,
            problem=f"the index of the packed folder (sample {count - 1}) is not read: {error}",
            fix="Nothing of it was run. To see the samples without it, open the file with packed=False.",
        ) from None


def _checked_tree(tree: object, count: int, letters_left: int) -> Tree:
    """The tree, if it is one of files that are samples below ``count`` and whose paths are not too long together."""
    if not isinstance(tree, dict):
        raise RefusedPickleError("it is not a folder")
    level: list[tuple[dict[object, object], int]] = [(tree, 0)]  # folders, and how long their paths are
    seen = {id(tree)}
    for _ in range(MAX_DEPTH):
        below: list[tuple[dict[object, object], int]] = []
        for folder, length in level:
            for name, value in folder.items():
                path_length = length + len(_checked_name(name))
                letters_left -= path_length
                if letters_left < 0:
                    raise RefusedPickleError("the paths of its files are together far longer than the index itself")
                if type(value) is int:
                    if not 0 <= value < count:
                        raise RefusedPickleError(
                            f"{name!r:.200} is sample {value}, and the files are samples 0 to {count - 1}"
                        )
                elif not isinstance(value, dict):
                    raise RefusedPickleError(f"{name!r:.200} is neither a folder nor the number of a sample")
                elif id(value) in seen:
                    raise RefusedPickleError(f"the folder {name!r:.200} has two places")
                else:
                    seen.add(id(value))
                    below.append((value, path_length + 1))
        if not below:
            return cast("Tree", tree)
        level = below
    raise RefusedPickleError(f"folders are nested more than {MAX_DEPTH} deep")


def _checked_name(name: object) -> str:
    if not isinstance(name, str):
        raise RefusedPickleError(f"a {type(name).__name__} cannot be the name of a file")
    if name in ("", ".", "..") or "/" in name or "\0" in name:
        raise RefusedPickleError(f"{name!r:.200} cannot be the name of a file")
    return name


def find(tree: Tree, path: str) -> int | Tree | None:
    """What stands at a relative path: the number of a file's sample, a folder, or None.

    Example:
        >>> find(build_tree(["a/b"]), "./a//b")
        0
    """
    here: int | Tree | None = tree
    for part in path.split("/"):
        if part in ("", "."):
            continue
        if here is None or isinstance(here, int):
            return None
        here = here.get(part)
    return None if path.startswith("/") else here


def walk(tree: Tree, prefix: str = "") -> Iterator[tuple[str, int | Tree]]:
    """Everything below a folder in stored order, as (path, number of the sample or folder); folders come first."""
    under_way = [(prefix, iter(tree.items()))]
    while under_way:
        folder, items = under_way[-1]
        for name, value in items:
            path = f"{folder}{name}"
            yield path, value
            if not isinstance(value, int):
                under_way.append((f"{path}/", iter(value.items())))
                break
        else:
            under_way.pop()


def list_files(tree: Tree) -> dict[str, int]:
    """Paths of all files and the numbers of their samples.

    Example:
        >>> list_files(build_tree(["a/b", "c"]))
        {'a/b': 0, 'c': 1}
    """
    return {path: value for path, value in walk(tree) if isinstance(value, int)}


def build_tree(names: Iterable[str]) -> Tree:
    """The tree of files whose paths are given in the order of their samples.

    Raises:
        ValueError: a path is not relative, is not in its shortest form, or stands where something else is.
    """
    tree: Tree = OrderedDict()
    for number, name in enumerate(names):
        *folders, last = name.split("/")
        here = tree
        try:
            for part in (*folders, last):
                _checked_name(part)
        except RefusedPickleError as error:
            raise ValueError(f"name {name!r} of sample {number}: {error}") from None
        for part in folders:
            below = here.setdefault(part, OrderedDict())
            if isinstance(below, int):
                raise ValueError(f"name {name!r} of sample {number}: {part!r} is a file already, so nothing is in it")
            here = below
        if last in here:
            raise ValueError(f"name {name!r} of sample {number}: there is another sample or folder of that name")
        here[last] = number
    return tree


def pack_index(tree: Tree) -> bytes:
    """The last sample of a packed folder, byte for byte what FFRecord writes."""
    return INDEX_MAGIC + pickle.dumps(tree, protocol=_PROTOCOL)
