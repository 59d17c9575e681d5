"""Between .barecat, tar, zip and folders, streaming: nothing is unpacked on the way."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from penstock.errors import FormatError
from penstock.formats.barecat.containers import READ_ERRORS, count_entries, open_sink, read_entries
from penstock.formats.barecat.entries import Transfer

if TYPE_CHECKING:
    from penstock.errors import PathLike
    from penstock.types import Progress

__all__ = ["convert", "pack_archive"]


def pack_archive(
    folder: PathLike, path: PathLike, *, shard_size: int | None = None, progress: Progress | None = None
) -> None:
    """Pack all files below a folder into an archive, which replaces one that is there."""
    convert(os.path.join(os.fspath(folder), ""), path, shard_size=shard_size, force=True, progress=progress)


def convert(
    source: PathLike,
    target: PathLike,
    *,
    shard_size: int | None = None,
    max_bytes: int | None = None,
    force: bool = False,
    progress: Progress | None = None,
) -> Transfer:
    """Carry all files and directories from one container to another.

    Both are .barecat, .tar, .tar.gz, .tar.bz2, .tar.xz, .tar.zst, .zip, or a folder (no ending). Hard links and links
    inside a tar become files; what cannot be carried is in the result. Names that lead out of the target are refused.

    Args:
        source: what is read.
        target: what is made; when something goes wrong, nothing of it is left (a folder keeps what it has).
        shard_size: limit of the shards of a .barecat.
        max_bytes: refuse more content than this; by default a tar or zip may hold 1 GiB, or 1100 times its size.
        force: replace the target.
        progress: called as the work advances.

    Example:
        >>> import os, pathlib, tempfile
        >>> folder = tempfile.mkdtemp()
        >>> _ = pathlib.Path(folder, "in").mkdir(), pathlib.Path(folder, "in", "a.txt").write_text("hello")
        >>> convert(f"{folder}/in", f"{folder}/x.barecat").files
        1
        >>> convert(f"{folder}/x.barecat", f"{folder}/x.tar").files
        1
    """
    if os.path.isdir(source) and _lies_in(target, source):
        raise ValueError(f"{os.fspath(target)} lies in {os.fspath(source)}, which is read; write it elsewhere")
    result = Transfer()
    entries = read_entries(os.fspath(source), result.skipped, max_bytes=max_bytes)
    sink = open_sink(os.fspath(target), shard_size=shard_size, force=force)
    try:
        with count_entries(os.fspath(source), progress) as report:
            for entry in entries:
                sink.put(entry)
                result.dirs += entry.is_dir
                result.files += not entry.is_dir
                result.size_bytes += entry.size
                if report is not None:
                    report(result.files, None, result.size_bytes)
        sink.finish()
    except BaseException as error:
        sink.abort(error)
        is_gzip_error = isinstance(error, OSError) and error.errno is None
        if isinstance(error, READ_ERRORS) or is_gzip_error:
            raise FormatError(source, problem=f"it cannot be read ({error})") from error
        raise
    return result


def _lies_in(path: PathLike, folder: PathLike) -> bool:
    return os.path.realpath(path).startswith(os.path.join(os.path.realpath(folder), ""))
