"""Names: of the files that make up an archive, and of what is inside."""

from __future__ import annotations

import contextlib
import os
import re
from typing import TYPE_CHECKING

from headrace.storage import RemotePath, is_remote, stored_exists

if TYPE_CHECKING:
    from headrace.errors import PathLike

__all__ = [
    "MAX_SHARDS",
    "archive_exists",
    "archive_files",
    "archive_path",
    "archive_status",
    "beside_path",
    "duplicate_path",
    "incomplete_files",
    "index_path",
    "is_part_of",
    "looks_like_barecat",
    "making_path",
    "place_of",
    "replace_path",
    "shard_numbers",
    "shard_path",
    "undo_path",
]

MAX_SHARDS = 100_000
_OLD_INDEX = "-sqlite-index"
_SHARD = re.compile(r"-shard-(\d{5})")
_SIDE_FILES = (_OLD_INDEX, "-journal", "-wal", "-shm", "-undo", "-replace")
_HIDDEN = re.compile(rf"(\.[0-9a-f]{{8}})?\.incomplete({_SHARD.pattern}|{'|'.join(_SIDE_FILES)})?")


def index_path(path: PathLike) -> str:
    """The SQLite file of an archive: the path itself, or the older ``PATH-sqlite-index`` if only that exists."""
    plain = os.fspath(path)
    old = plain + _OLD_INDEX
    return old if not os.path.exists(plain) and os.path.exists(old) else plain


def place_of(path: str, *, follow_links: bool) -> str:
    """Where the files of an archive are: a path that is a link itself leads to them.

    With ``follow_links`` they may as well stand beside that link, as links or not.
    """
    if is_remote(path):
        return path
    plain = os.path.abspath(path)
    index = index_path(plain)
    if not os.path.islink(index) or (follow_links and os.path.lexists(shard_path(plain, 0))):
        return plain
    return archive_path(os.path.realpath(index))


def shard_path(path: str, number: int) -> str:
    """The file of one shard."""
    if not 0 <= number < MAX_SHARDS:
        raise ValueError(f"{path}: shard numbers go from 0 to {MAX_SHARDS - 1}, got {number}")
    return path + f"-shard-{number:05d}"


def duplicate_path(shard: str) -> str:
    """The second name that a shard has for a moment while shards are renumbered."""
    return f"{shard}.new"


def undo_path(path: str) -> str:
    """The file that holds old bytes while they are overwritten."""
    return f"{path}-undo"


def replace_path(path: str) -> str:
    """The file that says which archive is taking the name; see ``handover``."""
    return f"{path}-replace"


def beside_path(path: str) -> str:
    """A hidden name in the same folder that nobody uses, for what is not complete yet."""
    folder, name = os.path.split(path)
    return os.path.join(folder, f".{name}.{os.urandom(4).hex()}.incomplete")


def making_path(path: str) -> str:
    """The hidden file that a process locks while it makes a new archive of this name."""
    folder, name = os.path.split(path)
    return os.path.join(folder, f".{name}.incomplete")


def incomplete_files(path: str) -> list[str]:
    """All files under names that ``beside_path`` gave, of archives that were begun and have no name yet."""
    folder, own = os.path.split(os.path.abspath(path))
    with os.scandir(folder) as entries:
        names = [entry.name for entry in entries if _is_hidden_part(entry.name, own)]
    return [os.path.join(folder, name) for name in names if name != f".{own}.incomplete"]


def _is_hidden_part(name: str, own: str) -> bool:
    return name.startswith(f".{own}.") and _HIDDEN.fullmatch(name, len(own) + 1) is not None


def shard_numbers(path: str) -> list[int]:
    """Numbers of the shard files there are, ascending; there may be gaps."""
    directory, name = os.path.split(os.path.abspath(path))
    found = []
    with os.scandir(directory) as entries:
        for entry in entries:
            match = _SHARD.fullmatch(entry.name, len(name)) if entry.name.startswith(name) else None
            if match:
                found.append(int(match[1]))
    return sorted(found)


def archive_files(path: str) -> list[str]:
    """All files of an archive that exist."""
    side = [path + ending for ending in ("", *_SIDE_FILES)]
    shards = [shard_path(path, number) for number in shard_numbers(path)]
    return [file for file in side if os.path.lexists(file)] + shards


def archive_status(path: str) -> os.stat_result | None:
    """Owner and permissions that new files of an archive take over: those of its index, else of its first shard."""
    for file in (index_path(path), shard_path(path, 0)):
        with contextlib.suppress(FileNotFoundError):
            return os.stat(file)
    return None


def is_part_of(file: str, path: str) -> bool:
    """A file on the disk is the index, a shard or a side file of an archive, which may be still in the making.

    Example:
        >>> is_part_of("./x.barecat-shard-00007", "x.barecat"), is_part_of("x.barecat.txt", "x.barecat")
        (True, False)
    """
    name, own = os.path.basename(file), os.path.basename(path)
    if name != own and not name.startswith(f"{own}-") and not _is_hidden_part(name, own):
        return False  # nearly always; the rest is slow
    return os.path.realpath(os.path.dirname(file)) == os.path.realpath(os.path.dirname(path))


def archive_exists(path: PathLike) -> bool:
    """There is an index under this path, or one that is about to be."""
    name = os.fspath(path)
    if is_remote(name):
        return stored_exists(name) or stored_exists(name + _OLD_INDEX)
    return os.path.exists(index_path(name)) or os.path.exists(replace_path(name))


def looks_like_barecat(path: str, head: bytes) -> bool:
    """Tell by the first bytes and the first shard beside it."""
    return head.startswith(b"SQLite format 3\0") and stored_exists(shard_path(path, 0))


def archive_path(path: PathLike) -> str:
    """The path of an archive, also when its old index file is named."""
    name = os.fspath(path)
    plain = name.removesuffix(_OLD_INDEX)
    return name.with_url(plain) if isinstance(name, RemotePath) else plain
