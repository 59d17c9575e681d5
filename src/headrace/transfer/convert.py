"""Between .barecat, tar, zip and folders, streaming: nothing is unpacked on the way."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from headrace.formats.barecat.names import lies_in
from headrace.formats.report import Transfer
from headrace.transfer.containers import count_entries, read_entries, translate_errors
from headrace.transfer.sinks import open_sink

if TYPE_CHECKING:
    from typing import BinaryIO

    from headrace.errors import PathLike
    from headrace.types import Progress

__all__ = ["convert"]


def convert(
    source: PathLike | BinaryIO,
    target: PathLike | BinaryIO,
    *,
    source_kind: str | None = None,
    target_kind: str | None = None,
    shard_size: int | None = None,
    max_bytes: int | None = None,
    force: bool = False,
    progress: Progress | None = None,
) -> Transfer:
    """Carry all files and directories from one container to another.

    Both are .barecat, .tar, .tar.gz, .tar.bz2, .tar.xz, .tar.zst, .zip, or a folder (no ending). Hard links and links
    inside a tar become files; what cannot be carried is in the result. Names that lead out of the target are refused.

    Args:
        source: what is read. A tar may also come from a stream that is open for reading bytes; its links are left out,
            because a stream is read once.
        target: what is made; when something goes wrong, nothing of it is left (a folder keeps what it has). A tar or
            zip may also go to a stream, which stays open.
        source_kind: what the source is where no ending says so: ``"tar"``, ``"tar.gz"``, ``"zip"`` and so on.
        target_kind: what the target will be where no ending says so.
        shard_size: limit of the shards of a .barecat.
        max_bytes: refuse more content than this; by default a tar or zip may hold 1 GiB, or 200 times its size.
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
    origin = os.fspath(source) if isinstance(source, str | os.PathLike) else source
    goal = os.fspath(target) if isinstance(target, str | os.PathLike) else target
    if isinstance(origin, str) and isinstance(goal, str) and os.path.isdir(origin) and lies_in(goal, origin):
        raise ValueError(f"{goal} lies in {origin}, which is read; write it elsewhere")
    result = Transfer()
    entries = read_entries(origin, result.skipped, kind=source_kind, max_bytes=max_bytes)
    sink = open_sink(goal, kind=target_kind, shard_size=shard_size, force=force)
    try:
        with translate_errors(origin), count_entries(origin, progress, kind=source_kind) as report:
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
        raise
    return result
