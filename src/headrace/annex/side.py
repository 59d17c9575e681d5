"""Annexes that stand beside their dataset."""

from __future__ import annotations

import contextlib
import logging
import os
from typing import TYPE_CHECKING

from headrace.errors import AnnexError, FormatError, RefusedError
from headrace.storage import AtomicFile, RemotePath, check_regular, is_remote, open_stored

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from headrace.errors import PathLike
    from headrace.storage import StoredFile
    from headrace.types import Buffer

__all__ = ["find_side", "new_side", "new_side_path", "open_side", "side_exists", "side_path"]

_log = logging.getLogger("headrace")
_OF_A_COPY = "headrace index FILE makes FILE.annex, which belongs beside the object, under the same name and .annex"


def side_path(dataset_path: PathLike) -> str:
    """Where the annex of a dataset is when it is not inside the file.

    Example:
        >>> side_path("train.beton")
        'train.beton.annex'
    """
    return os.fspath(dataset_path) + ".annex"


def new_side_path(dataset_path: PathLike) -> str:
    """The same for an annex that will be written.

    Raises:
        AnnexError: a link is there, unless it leads to the annex of what the path of the dataset leads to.
        ValueError: it is a URL of a kind that nothing can be written to.
    """
    beside = side_path(dataset_path)
    if isinstance(beside, RemotePath):
        from headrace.storage.object_folder import check_writable  # what files of this machine do not need

        check_writable(beside, f"make the annex of a copy on this machine, and put it there. {_OF_A_COPY}")
        return beside
    if os.path.islink(beside) and os.path.realpath(beside) != side_path(os.path.realpath(dataset_path)):
        problem = "this is a symbolic link, so writing could change a file elsewhere"
        raise AnnexError(beside, problem=problem, fix="Remove it first; with it goes only the link.")
    return beside


@contextlib.contextmanager
def new_side(dataset_path: PathLike, *, is_synced: bool = True) -> Iterator[Callable[[Sequence[Buffer]], None]]:
    """Write the annex beside a dataset: gives what appends bytes; it is there when the block ends, or not at all.

    Raises:
        RefusedError: it is in a store that does not let us write.
    """
    target = new_side_path(dataset_path)
    if not isinstance(target, RemotePath):
        with AtomicFile(target, like=dataset_path, is_synced=is_synced) as file:
            yield file.write
        return
    from headrace.storage.object_folder import upload_folder

    folder, name = upload_folder(), target.rpartition("/")[2]
    try:
        here = os.path.join(folder.path, name)
        with AtomicFile(here) as file:
            yield file.write
        _upload(target, here)
    finally:
        folder.remove()


def _upload(target: RemotePath, here: str) -> None:
    from headrace.storage.object_folder import ObjectFolder

    objects = ObjectFolder(target)
    upload = objects.upload(objects.name, here)
    try:
        upload.send()
    except RefusedError as error:
        fix = f"Use credentials that may write there; or make the annex of a copy on this machine. {_OF_A_COPY}"
        raise RefusedError(error.url, problem=error.problem, fix=fix) from None
    except BaseException:
        if upload.is_damaged:
            upload.remove()
        raise


def side_exists(dataset_path: PathLike) -> bool:
    """There is something where an annex would be; ``find_side`` says whether it can be used."""
    if is_remote(dataset_path):
        return open_side(dataset_path) is not None
    return any(os.path.lexists(side_path(path)) for path in (dataset_path, os.path.realpath(dataset_path)))


def find_side(dataset_path: PathLike, *, follow_links: bool = False) -> str | None:
    """The annex beside a dataset, for reading, or None when there is none.

    If the path of the dataset is a link, the annex may also stand beside what it leads to.

    Raises:
        AnnexError: it is a pipe or a device; or a link, unless that leads to the annex of what the path leads to, or
            ``follow_links`` is given.
    """
    if is_remote(dataset_path):
        return side_path(dataset_path) if side_exists(dataset_path) else None
    beside, behind = side_path(dataset_path), side_path(os.path.realpath(dataset_path))
    if not os.path.lexists(beside):
        beside = behind
    if not os.path.lexists(beside):
        return None
    if os.path.islink(beside) and os.path.realpath(beside) == behind:
        beside = behind
    try:
        check_regular(beside, nofollow=not follow_links)
    except FormatError as error:
        raise AnnexError(beside, problem=error.problem, fix=error.fix) from None
    return beside


def open_side(dataset_path: PathLike, *, follow_links: bool = False) -> StoredFile | None:
    """The same, opened; beside an object of a store, an object of that name.

    Stores that do not let everybody list what they have refuse what is not there. So a refusal means that there is
    none: whoever asks has opened the dataset itself.
    """
    if is_remote(dataset_path):
        try:
            return open_stored(side_path(dataset_path))
        except FileNotFoundError:
            return None
        except RefusedError as error:
            _log.info("%s: taken as not there: %s", error.url, error.problem)
            return None
    path = find_side(dataset_path, follow_links=follow_links)
    return None if path is None else open_stored(path, nofollow=not follow_links)
