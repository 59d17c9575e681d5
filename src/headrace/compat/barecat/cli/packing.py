"""create and add: what goes into an archive."""

from __future__ import annotations

import contextlib
import fcntl
import os
import struct
import sys
from typing import TYPE_CHECKING

from headrace.cli.common import say
from headrace.compat.barecat.cli import impl
from headrace.compat.barecat.util.glob_to_regex import compile_rules
from headrace.formats.disk_files import stored_name
from headrace.progress import ProgressBar

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable, Iterator
    from typing import BinaryIO

__all__ = ["by_physical_order", "pack_paths", "read_names"]

_UNKNOWN = (1 << 63) - 1
_FIEMAP = 0xC020660B  # FS_IOC_FIEMAP of Linux
_HEAD = struct.Struct("=QQLLLL")
_EXTENT = struct.Struct("=QQQQQLLLL")


def pack_paths(args: argparse.Namespace, shard_size_limit: int | None, *, overwrite: bool) -> None:
    """Pack what the arguments name."""
    if not args.paths and not args.files_from:
        print("Error: No input specified. Provide paths or -T FILE.", file=sys.stderr)
        sys.exit(1)
    archive = os.path.abspath(args.archive) if args.directory is None else args.archive
    if args.directory:
        os.chdir(args.directory)
    pairs: Iterable[tuple[str, str]] = ((path, stored_name(path)) for path in _paths(args))
    if args.physical_order:
        pairs = by_physical_order(pairs)
    is_shown = sys.stdout.isatty()
    with ProgressBar("packing", unit="files") if is_shown else contextlib.nullcontext() as bar:
        impl.create(pairs, archive, shard_size_limit, overwrite, workers=args.workers, progress=bar)


def _paths(args: argparse.Namespace) -> Iterator[str]:
    rules = [*(("-", pattern) for pattern in args.exclude), *(("+", pattern) for pattern in args.include)]
    keep = compile_rules(rules, default=not args.include)
    for root in args.paths:
        if os.path.lexists(root):
            yield from _below(root, keep)
        else:
            say(f"left out: {root}: does not exist", file=sys.stderr)
    if args.files_from:
        is_stdin = args.files_from == "-"
        with contextlib.nullcontext(sys.stdin.buffer) if is_stdin else open(args.files_from, "rb") as file:
            yield from filter(keep, read_names(file, is_null=args.null))


def _below(root: str, keep: Callable[[str], bool]) -> Iterator[str]:
    if keep(root):
        yield root
    if not os.path.isdir(root):
        return
    for folder, dirs, files in os.walk(root):
        dirs[:] = [name for name in dirs if keep(os.path.join(folder, name))]
        yield from (path for name in (*files, *dirs) if keep(path := os.path.join(folder, name)))


def read_names(file: BinaryIO, *, is_null: bool) -> list[str]:
    """Names that end with a newline, or with a NUL as ``find -print0`` writes them; what follows it does not count."""
    names = file.read().split(b"\0")[:-1] if is_null else file.read().split(b"\n")
    return [os.fsdecode(name) for name in names if name]


def by_physical_order(pairs: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """In the order in which files lie on the disk, for disks that turn."""
    return iter(sorted(pairs, key=lambda pair: _physical_offset(pair[0])))


def _physical_offset(path: str) -> int:
    """The first byte of a file on its disk; a large number where the file system does not tell."""
    try:
        with open(path, "rb", buffering=0) as file:
            answer = fcntl.ioctl(file, _FIEMAP, _HEAD.pack(0, 0xFFFFFFFFFFFFFFFF, 0, 0, 1, 0) + bytes(_EXTENT.size))
    except OSError:
        return _UNKNOWN
    is_known = _HEAD.unpack_from(answer)[3] > 0
    return int(_EXTENT.unpack_from(answer, _HEAD.size)[1]) if is_known else _UNKNOWN
