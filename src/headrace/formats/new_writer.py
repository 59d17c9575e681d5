"""What writes samples: one file, or a set of files here or in a store."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from headrace.formats.shard_log import ShardLog
from headrace.formats.sharded_writer import HiddenPlace, ShardedWriter, names_of_set, shard_creator
from headrace.storage import RemotePath

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.errors import PathLike
    from headrace.formats.contract import Format
    from headrace.formats.sharded_writer import ShardCheck, ShardLimits, ShardPlace
    from headrace.types import Field, Writer

__all__ = ["new_writer"]


def new_writer(
    target: Format,
    path: PathLike,
    fields: Mapping[str, Field],
    *,
    length: int | None,
    limits: ShardLimits | None,
    force: bool,
    options: Mapping[str, Any],
    check: ShardCheck | None = None,
) -> Writer[Any]:
    """Make the writer of one file, or, with limits, of a set.

    Args:
        target: the format.
        path: of the file; of a set, with a number in its name, and then it may be a URL.
        fields: name to field, in order.
        length: number of all samples, if known.
        limits: when a file of a set is full.
        force: replace the files of a set that there are.
        options: what the format's writer takes.
        check: looks at the files of a set before they get their names.
    """
    if limits is None:
        return target.create_checked(path, fields, length=length, **options)
    create = shard_creator(target, fields, options)
    return ShardedWriter(_new_place(path, force, check), create, fields, limits=limits, length=length)


def _new_place(path: PathLike, force: bool, check: ShardCheck | None) -> ShardPlace:
    names = names_of_set(path)
    where = os.fspath(path)
    if not isinstance(where, RemotePath):
        return HiddenPlace(names, force=force, check=check)
    from headrace.formats.stored_shards import StoreShelf, UploadedPlace  # what files of this machine do not need

    shelf = StoreShelf(where)
    log = ShardLog.begin(shelf, {"resumable": False})
    return UploadedPlace(log, shelf, is_resumed=False, force=force, check=check)
