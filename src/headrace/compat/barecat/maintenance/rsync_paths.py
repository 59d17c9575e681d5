"""How ``rsync`` names things: folders, archives and places inside of them."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from enum import Enum

from headrace.compat.barecat.core.paths import is_tar_or_zip, without_ending

__all__ = ["ParsedPath", "PathType", "parse_path"]

_SERVER = "barecat://"
_REMOTE = re.compile(r"(?:([^@]+)@)?([^:/]+):(/.*)", re.DOTALL)


class PathType(Enum):
    """What a path is."""

    LOCAL = "local"
    LOCAL_ARCHIVE = "local_archive"
    TAR_ZIP = "tar_zip"
    SSH = "ssh"
    SSH_ARCHIVE = "ssh_archive"
    BARECAT_SERVER = "barecat_server"


@dataclass
class ParsedPath:
    """A source or target: where it is, and what inside of it."""

    path_type: PathType
    host: str | None
    user: str | None
    filesystem_path: str
    archive_path: str | None
    inner_path: str
    trailing_slash: bool

    @property
    def contents_mode(self) -> bool:
        """What is in it is meant, and not the directory itself."""
        return self.trailing_slash

    @property
    def is_archive(self) -> bool:
        """It is an archive, or inside of one."""
        return self.path_type in (PathType.LOCAL_ARCHIVE, PathType.SSH_ARCHIVE, PathType.BARECAT_SERVER)

    @property
    def is_tar_zip(self) -> bool:
        """It is a tar or zip, or inside of one."""
        return self.path_type == PathType.TAR_ZIP

    @property
    def is_remote(self) -> bool:
        """It is on another machine."""
        return self.path_type in (PathType.SSH, PathType.SSH_ARCHIVE, PathType.BARECAT_SERVER)

    @property
    def archive_basename(self) -> str:
        """The name of the archive without its ending."""
        name = os.path.basename(self.archive_path or "")
        return name.removesuffix("-sqlite-index").removesuffix(".barecat")

    @property
    def name_in_target(self) -> str:
        """The directory of the target that it goes into; nothing if what is in it is meant."""
        if self.contents_mode:
            return ""
        if self.inner_path:
            return os.path.basename(self.inner_path)
        if self.is_archive:
            return self.archive_basename
        name = os.path.basename(self.filesystem_path)
        return without_ending(name) if self.is_tar_zip else name


def parse_path(path: str) -> ParsedPath:
    r"""Take a path apart.

    ``archive.barecat::inside`` names something in an archive, ``photos.tar::inside`` in a tar or zip; ``\::`` stands
    for two colons that mean nothing. A slash at the end means what is in a directory. ``user@host:/path`` and
    ``barecat://host:port/archive::inside`` are understood, but nothing can be reached there.

    Example:
        >>> parsed = parse_path("photos.barecat::train/")
        >>> parsed.archive_path, parsed.inner_path, parsed.contents_mode
        ('photos.barecat', 'train', True)
    """
    plain, has_slash = path.rstrip("/"), path.endswith("/")
    if plain.startswith(_SERVER):
        host, slash, rest = plain.removeprefix(_SERVER).partition("/")
        if not slash:
            raise ValueError(f"Invalid barecat:// URL: {plain}")
        archive, inner = _split(rest)
        return ParsedPath(PathType.BARECAT_SERVER, host, None, "", archive, inner or "", has_slash)
    remote = _REMOTE.fullmatch(plain)
    user, host_name, rest = remote.groups() if remote else (None, None, plain)
    archive, inner = _split(rest)
    whole = _unescape(rest)
    if inner is None:
        kind = PathType.SSH if remote else PathType.LOCAL
        return ParsedPath(kind, host_name, user, whole, None, "", has_slash)
    if remote:
        return ParsedPath(PathType.SSH_ARCHIVE, host_name, user, whole, archive, inner, has_slash)
    if is_tar_or_zip(archive):
        return ParsedPath(PathType.TAR_ZIP, None, None, archive, archive, inner, has_slash)
    return ParsedPath(PathType.LOCAL_ARCHIVE, None, None, whole, archive, inner, has_slash)


def _split(path: str) -> tuple[str, str | None]:
    """Archive and what is inside; None if there are no two colons that count."""
    at = _find_unescaped(path, "::")
    if at < 0:
        return _unescape(path), None
    return _unescape(path[:at]), _unescape(path[at + 2 :]).lstrip("/")


def _find_unescaped(s: str, needle: str) -> int:
    """The first place with an even number of backslashes before it; -1 if there is none."""
    at = s.find(needle)
    while at >= 0:
        before = s[:at]
        if (len(before) - len(before.rstrip("\\"))) % 2 == 0:
            return at
        at = s.find(needle, at + 1)
    return -1


def _unescape(s: str) -> str:
    return re.sub(r"\\(\\|::)", r"\1", s)
