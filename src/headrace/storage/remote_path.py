"""Addresses of objects in stores: URLs that know how their store is reached.

Contract: everything that takes a path takes a URL, too. ``as_path`` turns what a user gives into the string that
formats pass on; of a URL it is a ``RemotePath``, which carries the options of its store along, also when a suffix is
added or when it is pickled. So no format has to know of stores, and nothing is global. A ``file://`` URL is a
plain path.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from headrace.errors import shown_url
from headrace.progress import parse_bytes

if TYPE_CHECKING:
    from headrace.errors import PathLike

__all__ = [
    "SCHEMES",
    "RemotePath",
    "StorageOptions",
    "absolute",
    "as_path",
    "check_local",
    "is_remote",
    "name_part",
    "storage_of",
]

SCHEMES = ("s3", "gs", "az", "https", "http")
"""What a URL of an object store begins with; ``file`` leads to a local file."""

_URL = re.compile(r"([a-z][a-z0-9+.-]*)://", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True, slots=True)
class StorageOptions:
    """How a store is reached, and where what was read is kept.

    Args:
        store: what obstore takes for the kind of store: credentials, region, endpoint and so on, by name.
        cache_dir: folder on a local disk that keeps what was read, for all processes of the machine; None keeps it in
            memory alone.
        cache_size: bytes that the folder may take.
    """

    store: Mapping[str, Any] = field(default_factory=dict, repr=False)  # it has secrets
    cache_dir: str | None = None
    cache_size: int | None = None


class RemotePath(str):
    """A URL of an object, and how its store is reached.

    Example:
        >>> RemotePath("s3://bucket/train.tar") + ".annex"
        's3://bucket/train.tar.annex'
        >>> type(RemotePath("s3://bucket/train.tar") + ".annex").__name__
        'RemotePath'
        >>> RemotePath("https://host/train.tar?token=1") + ".annex"
        'https://host/train.tar.annex?token=1'
    """

    storage: StorageOptions

    def __new__(cls, url: str, storage: StorageOptions | None = None) -> RemotePath:  # noqa: D102
        path = super().__new__(cls, url)
        path.storage = storage or StorageOptions()
        return path

    def __add__(self, suffix: str) -> RemotePath:
        url, mark, query = str(self).partition("?") if self.scheme in ("http", "https") else (str(self), "", "")
        return RemotePath(f"{url}{suffix}{mark}{query}", self.storage)

    def __str__(self) -> str:
        return str.__str__(self)[:]

    def __reduce__(self) -> tuple[Any, ...]:
        return RemotePath, (str(self), self.storage)

    def with_url(self, url: str) -> RemotePath:
        """Another object that is reached in the same way."""
        return RemotePath(url, self.storage)

    @property
    def scheme(self) -> str:
        """What stands before the colon."""
        return urlsplit(str(self)).scheme.lower()


def is_remote(path: PathLike) -> bool:
    """A path is the URL of an object in a store.

    Example:
        >>> is_remote("s3://bucket/x"), is_remote("file:///tmp/x"), is_remote("/tmp/x")
        (True, False, False)
    """
    found = _URL.match(os.fspath(path))
    return found is not None and found[1].lower() in SCHEMES


def as_path(path: PathLike, storage: StorageOptions | None = None) -> str:
    """What a user gave as the string that formats pass on: a plain path, or a RemotePath.

    Raises:
        ValueError: it is a URL of a kind that is not known.

    Example:
        >>> as_path("file:///tmp/a%20b.tar"), type(as_path("gs://bucket/x")).__name__
        ('/tmp/a b.tar', 'RemotePath')
    """
    name = os.fspath(path)
    if isinstance(name, RemotePath):
        return name if storage is None else RemotePath(str(name), storage)
    found = _URL.match(name)
    if found is None:
        return name
    scheme = found[1].lower()
    if scheme == "file":
        parts = urlsplit(name)
        if parts.netloc not in ("", "localhost"):
            raise ValueError(f"{name}: a file:// URL names a file of this machine, such as file:///data/train.tar")
        return unquote(parts.path)
    if scheme not in SCHEMES:
        raise ValueError(f"{name}: no store is known for {scheme}://; known are {', '.join(SCHEMES)} and file")
    return RemotePath(name, storage)


def name_part(path: PathLike) -> str:
    """What a path or URL ends with, by which formats are told: without the query of a URL.

    Example:
        >>> name_part("https://host/x.tar?token=1"), name_part("/tmp/x.tar")
        ('/x.tar', '/tmp/x.tar')
    """
    name = os.fspath(path)
    return urlsplit(str(name)).path if name.lower().startswith(("http://", "https://")) else str(name)


def check_local(path: PathLike) -> None:
    """ValueError for a URL: what is in a store is written whole, and not changed.

    Example:
        >>> check_local("s3://bucket/x.barecat")
        Traceback (most recent call last):
        ValueError: s3://bucket/x.barecat is in a store, where ...
    """
    if is_remote(path):
        raise ValueError(
            f"{shown_url(os.fspath(path))} is in a store, where datasets are written whole and not changed. Change one "
            "on this machine, and write that to the store: headrace convert FILE URL --force"
        )


def absolute(path: PathLike) -> str:
    """A path that means the same in every folder and process; of a URL the URL itself."""
    name = os.fspath(path)
    return name if is_remote(name) else os.path.abspath(name)


def storage_of(
    storage_options: Mapping[str, Any] | None = None,
    cache_dir: PathLike | None = None,
    cache_size: int | str | None = None,
) -> StorageOptions | None:
    """What a user says of stores as one value; None where nothing was said.

    Args:
        storage_options: what obstore takes for the kind of store, by name.
        cache_dir: folder that keeps what was read.
        cache_size: bytes that it may take, or text such as ``"100GB"``.

    Raises:
        TypeError: it is something else.
        ValueError: a size that is none, or a size without a folder.

    Example:
        >>> storage_of(cache_dir="/tmp/x", cache_size="1M").cache_size
        1048576
    """
    if storage_options is None and cache_dir is None and cache_size is None:
        return None
    if not isinstance(storage_options, Mapping | None):
        raise TypeError(f"storage_options must be a mapping of names to values, got {storage_options!r}")
    size = None if cache_size is None else _checked_size(cache_size)
    if size is not None and cache_dir is None:
        raise ValueError("cache_size is for a cache on the local disk; say with cache_dir where it is")
    folder = None if cache_dir is None else os.path.abspath(os.fspath(cache_dir))
    return StorageOptions(store=dict(storage_options or {}), cache_dir=folder, cache_size=size)


def _checked_size(cache_size: object) -> int:
    if isinstance(cache_size, bool) or not (isinstance(cache_size, str) or hasattr(cache_size, "__index__")):
        raise TypeError(f"cache_size must be a number of bytes or text such as '100GB', got {cache_size!r}")
    try:
        size = parse_bytes(cache_size) if isinstance(cache_size, str) else int(cache_size)
    except ValueError as error:
        raise ValueError(f"cache_size: {error}") from None
    if size < 1:
        raise ValueError(f"cache_size must be at least 1 byte, got {cache_size!r}")
    return int(size)
