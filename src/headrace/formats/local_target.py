"""Where a verb writes: a path as it is; for a URL a file of the same name here, which is then uploaded."""

from __future__ import annotations

import contextlib
import errno
import os
import re
from typing import TYPE_CHECKING, Any

from headrace.progress import ProgressBar
from headrace.storage import RemotePath, StorageOptions, as_path

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from headrace.errors import PathLike
    from headrace.storage.new_objects import NewObjects
    from headrace.types import Progress

__all__ = ["local_target", "named_as_given", "new_objects", "target_path"]


def target_path(path: PathLike, storage_options: Mapping[str, Any] | None) -> str:
    """What a user gave as a path to write to."""
    return as_path(path, None if storage_options is None else StorageOptions(store=dict(storage_options)))


@contextlib.contextmanager
def local_target(
    path: str, *, force: bool, progress: Progress | bool | None, is_dry: bool = False, is_set: bool = False
) -> Iterator[str]:
    """A path of this machine to write to; what is there at the end of the block is uploaded if the path is a URL.

    Args:
        path: as ``target_path`` gives it.
        force: replace objects that there are.
        progress: True for a progress bar of the upload, or a function to call with (done, total, size_bytes).
        is_dry: nothing will be written.
        is_set: several files are written, and the path stands for their names; of a URL it is given as it is, and who
            writes the files uploads each of them.

    Raises:
        FileExistsError: there is something in the store already.
        RemoteError: the store does not answer, or has other bytes than were sent.
    """
    if not isinstance(path, RemotePath):
        yield path
        return
    if is_set:
        with named_as_given(path):
            yield path
        return
    objects = new_objects(path, force=force)
    try:
        with named_as_given(path):
            yield objects.path
        if not is_dry:
            label = f"uploading {os.path.basename(str(path))}"
            with ProgressBar(label, unit="parts") if progress is True else contextlib.nullcontext(progress) as report:
                objects.upload(report or None)
    finally:
        objects.remove()


def new_objects(path: RemotePath, *, force: bool) -> NewObjects:
    """The objects that a dataset will consist of."""
    from headrace.storage.new_objects import NewObjects  # what files of this machine do not need

    name = str(path).rpartition("/")[2]
    form = re.compile(rf"{re.escape(name)}(?:\.annex|-shard-\d+|-.*index|-files/.*)?", re.DOTALL)
    return NewObjects(path, names=form, fixed=name, force=force)


@contextlib.contextmanager
def named_as_given(path: RemotePath) -> Iterator[None]:
    """Let errors speak of the URL that was given, and not of the temporary folder; unless that is full."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            from headrace.storage.object_folder import no_room

            raise no_room("the disk is full, and the dataset is written there before it is uploaded") from error
        _rename(error, path)
        raise
    except Exception as error:
        _rename(error, path)
        raise


def _rename(error: Exception, path: RemotePath) -> None:
    from headrace.storage.object_folder import named_in_store

    error.args = tuple(named_in_store(value, path) for value in error.args)
    for name, value in list(vars(error).items()):
        setattr(error, name, named_in_store(value, path))
