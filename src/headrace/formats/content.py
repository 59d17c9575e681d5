"""What a file is by its first bytes, for errors about files whose names say something else."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from headrace.errors import FormatError, RemoteError
from headrace.storage import is_remote, open_stored, open_stream

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from headrace.errors import PathLike
    from headrace.formats.contract import Format

__all__ = ["CONTAINERS", "explain_content", "explained", "first_bytes"]

CONTAINERS = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz", ".tar.zst", ".tzst", ".zip")
_HEAD_BYTES = 4096
_TAR_MAGIC_AT = 257


class _Kind(NamedTuple):
    begins: bytes
    name: str
    endings: tuple[str, ...]
    fix: str = ""


_KINDS = (
    _Kind(b"PK\x03\x04", "a zip", (".zip",)),
    _Kind(b"\x1f\x8b\x08", "compressed by gzip", (".tar.gz", ".tgz", ".gz")),
    _Kind(b"BZh", "compressed by bzip2", (".tar.bz2", ".tbz2", ".bz2")),
    _Kind(b"\xfd7zXZ\0", "compressed by xz", (".tar.xz", ".txz", ".xz")),
    _Kind(b"\x28\xb5\x2f\xfd", "compressed by zstd", (".tar.zst", ".tzst", ".zst")),
    _Kind(b"\xff\xd8\xff", "a JPEG picture", (".jpg", ".jpeg")),
    _Kind(b"\x89PNG\r\n", "a PNG picture", (".png",)),
    _Kind(b"\x89HDF\r\n", "an HDF5 file", (".h5", ".hdf5")),
    _Kind(b"PAR1", "a Parquet file", (".parquet",)),
    _Kind(b"ARROW1", "an Arrow file", (".arrow", ".feather")),
    _Kind(b"\x93NUMPY", "a NumPy array", (".npy",)),
    _Kind(b"SQLite format 3\0", "an SQLite database", (".barecat", "-sqlite-index", ".db", ".sqlite")),
    _Kind(b"version https://git-lfs", "a pointer of Git LFS", (), "Fetch the file itself with: git lfs pull"),
    _Kind(b"<!DOCTYPE html", "a web page", (), "The download has failed; download it again."),
    _Kind(b"<html", "a web page", (), "The download has failed; download it again."),
)


@contextlib.contextmanager
def explained(path: PathLike, all_formats: Callable[[], Sequence[Format]]) -> Iterator[None]:
    """Around what opens a file: the error says what the file is, when its name says something else."""
    try:
        yield
    except FormatError as error:
        told = explain_content(path, all_formats())
        if told is None:
            raise
        raise told from error


def first_bytes(path: str, size: int) -> bytes:
    """The beginning of a file or object; nothing of a folder."""
    if is_remote(path):
        file = open_stored(path)
        try:
            wanted = np.array([min(size, file.size_bytes)], np.uint64)
            base, starts = file.region(np.zeros(1, np.uint64), wanted)
            head = base[int(starts[0]) : int(starts[0] + wanted[0])].tobytes()
            file.check()
            return head
        finally:
            file.close()
    if os.path.isdir(path):
        return b""
    with open_stream(path) as stream:
        return stream.read(size)


def explain_content(path: PathLike, formats: Sequence[Format]) -> FormatError | None:
    """The error for a file that could not be read, when its content is something else than its name says."""
    name = os.fspath(path)
    says = tuple(suffix for known in formats for suffix in known.suffixes)
    if not name.lower().endswith((*says, *CONTAINERS)) or not (is_remote(name) or os.path.isfile(name)):
        return None
    try:
        head = first_bytes(name, _HEAD_BYTES)
    except RemoteError:
        return None  # the error that there is already is the one to tell
    kind = _kind_of(name, head, formats)
    if kind is None or name.lower().endswith(kind.endings):
        return None
    problem = f"this is {kind.name}, though its name ends in {os.path.splitext(name)[1]}"
    return FormatError(name, problem=problem, fix=kind.fix or f"Give it the ending {kind.endings[0]}.")


def _kind_of(path: str, head: bytes, formats: Sequence[Format]) -> _Kind | None:
    for known in formats:
        if known.suffixes and known.matches(path, head):
            article = "an" if known.suffixes[0][1:2] in "aef" else "a"
            return _Kind(b"", f"{article} {known.suffixes[0]} file", known.suffixes)
    if head[_TAR_MAGIC_AT:].startswith(b"ustar"):
        return _Kind(b"", "a tar", (".tar",))
    return next((kind for kind in _KINDS if head.startswith(kind.begins)), None)
