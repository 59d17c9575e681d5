"""What there is under a path or a URL: whether something is there, how large it is, and what lies in a folder."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from headrace.errors import RemoteError
from headrace.registry import require
from headrace.storage.courier import run
from headrace.storage.object_store import locate
from headrace.storage.remote_path import RemotePath, is_remote

if TYPE_CHECKING:
    from headrace.errors import PathLike
    from headrace.storage.object_store import ObjectStore

__all__ = ["list_stored", "stored_exists", "stored_size"]


def stored_exists(path: PathLike) -> bool:
    """There is a file, folder or object.

    Example:
        >>> stored_exists("/no/such/file")
        False
    """
    name = os.fspath(path)
    if not is_remote(name):
        return os.path.exists(name)
    try:
        stored_size(name)
    except FileNotFoundError:
        return False
    return True


def stored_size(path: PathLike) -> int:
    """Bytes of a file or object.

    Raises:
        FileNotFoundError: there is none.
        RemoteError: the store does not answer, or does not let us in.
    """
    name = os.fspath(path)
    if not is_remote(name):
        return os.path.getsize(name)
    store, key = locate(name)
    return run(lambda: store.head(key)).size_bytes


def list_stored(folder: RemotePath, *, recursive: bool) -> list[RemotePath]:
    """The objects in a folder of a store, by one list.

    Args:
        folder: a URL that ends in a slash.
        recursive: also those in folders below.

    Raises:
        RemoteError: the store does not answer, does not let us in, or gives no lists.
    """
    store, key = locate(folder)
    try:
        keys = run(lambda: _keys_below(store, key.rstrip("/"), recursive))
    except RemoteError as error:
        if folder.scheme not in ("http", "https"):
            raise
        raise RemoteError(
            folder,
            problem="this server gives no list of what it has",
            fix="Name the objects, one by one or as a list such as train-{000..127}.tar.",
        ) from error
    start = len(key)
    is_quoted = folder.scheme in ("http", "https")
    inside = (one[start:] for one in keys if one.startswith(key))
    return [folder.with_url(f"{folder}{quote(name) if is_quoted else name}") for name in inside]


async def _keys_below(store: ObjectStore, prefix: str, recursive: bool) -> list[str]:
    if recursive:
        return [facts.key for facts in await store.list(prefix)]
    api: Any = require("obstore", needed_by="reading from stores")

    async def attempt() -> list[str]:
        found = await api.list_with_delimiter_async(store.obstore, prefix or None)
        return [meta["path"] for meta in found["objects"]]

    return await store.patiently(store.url_of(prefix), attempt)
