"""Where a verb writes: a path as it is; for a URL a file of the same name here, which is then uploaded."""

from __future__ import annotations

import contextlib
import errno
import os
import re
from typing import TYPE_CHECKING, Any

from headrace.formats.sharded_writer import ShardNames
from headrace.progress import ProgressBar
from headrace.storage import RemotePath, StorageOptions, as_path

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from headrace.errors import PathLike
    from headrace.storage.new_objects import NewObjects
    from headrace.types import Progress

__all__ = ["local_target", "new_objects", "target_path"]


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
        is_set: several files are written, and the path stands for their names.

    Raises:
        FileExistsError: there is something in the store already.
        RemoteError: the store does not answer, or has other bytes than were sent.
    """
    if not isinstance(path, RemotePath):
        yield path
        return
    objects = new_objects(path, force=force, is_set=is_set)
    try:
        with _named_as_given(objects):
            yield objects.path
        if not is_dry:
            label = f"uploading {os.path.basename(str(path))}"
            with ProgressBar(label, unit="parts") if progress is True else contextlib.nullcontext(progress) as report:
                objects.upload(report or None)
    finally:
        objects.remove()


def new_objects(path: RemotePath, *, force: bool, is_set: bool) -> NewObjects:
    """The objects that a dataset, or a set of them, will consist of."""
    from headrace.storage.new_objects import NewObjects  # what files of this machine do not need

    name = str(path).rpartition("/")[2]
    set_names = ShardNames.of(name) if is_set else None
    if set_names is None:
        form = re.compile(rf"{re.escape(name)}(?:\.annex|-shard-\d+|-.*index|-files/.*)?", re.DOTALL)
        return NewObjects(path, names=form, fixed=name, force=force)
    before = set_names.before
    form = re.compile(rf"{re.escape(before)}\d+{re.escape(set_names.after)}(?:[.-].*)?", re.DOTALL)
    return NewObjects(path, names=form, fixed=before, force=force)


@contextlib.contextmanager
def _named_as_given(objects: NewObjects) -> Iterator[None]:
    """Let errors speak of the URL that was given, and not of the temporary folder; unless that is full."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            from headrace.storage.new_objects import no_room

            raise no_room(
                objects.folder, "the disk is full, and the dataset is written there before it is uploaded"
            ) from error
        _rename(error, objects)
        raise
    except Exception as error:
        _rename(error, objects)
        raise


def _rename(error: Exception, objects: NewObjects) -> None:
    def renamed(value: object) -> object:
        return value.replace(objects.folder, objects.url) if isinstance(value, str) else value

    error.args = tuple(map(renamed, error.args))
    for name, value in list(vars(error).items()):
        setattr(error, name, renamed(value))
