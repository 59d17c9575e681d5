"""create and add: what goes into an archive."""

from __future__ import annotations

import os
import re
import sys
from typing import TYPE_CHECKING

from headrace.compat.barecat.cli import impl
from headrace.compat.barecat.util.glob_to_regex import glob_to_regex
from headrace.compat.barecat.util.physical_order import get_physical_offset
from headrace.compat.barecat.util.progbar import progressbar

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator

__all__ = ["pack_paths"]


def pack_paths(args: argparse.Namespace, shard_size_limit: int | None, *, overwrite: bool) -> None:
    """Pack what the arguments name."""
    if not args.paths and not args.files_from:
        print("Error: No input specified. Provide paths or -T FILE.", file=sys.stderr)
        sys.exit(1)
    archive = os.path.abspath(args.archive) if args.directory is None else args.archive
    if args.directory:
        os.chdir(args.directory)
    pairs = ((path, _name(path)) for path in _paths(args))
    if args.physical_order:
        pairs = iter(sorted(pairs, key=lambda pair: get_physical_offset(pair[0])))  # type: ignore[assignment]
    shown = progressbar(pairs, desc="Packing files", unit=" files")
    impl.create(shown, archive, shard_size_limit, overwrite=overwrite, workers=args.workers)


def _name(path: str) -> str:
    """The path as a name in the archive: as tar does it, without what leads up in front."""
    name = os.path.normpath(path)
    while name == ".." or name.startswith("../"):
        name = name[3:] or "."
    return name


def _matcher(patterns: list[str]) -> Callable[[str], bool]:
    compiled = [
        re.compile(glob_to_regex(pattern, recursive="**" in pattern, include_hidden=True)).match for pattern in patterns
    ]
    return lambda path: any(match(path) for match in compiled)


def _paths(args: argparse.Namespace) -> Iterator[str]:
    is_excluded, is_included = _matcher(args.exclude), _matcher(args.include)

    def keep(path: str) -> bool:
        return not is_excluded(path) and (not args.include or is_included(path))

    for root in args.paths:
        if not os.path.lexists(root):
            print(f"left out: {root}: does not exist", file=sys.stderr)
            continue
        yield from _below(root, keep)
    if args.files_from:
        yield from filter(keep, _listed(args.files_from, args.null))


def _below(root: str, keep: Callable[[str], bool]) -> Iterator[str]:
    if keep(root):
        yield root
    if not os.path.isdir(root):
        return
    for folder, dirs, files in os.walk(root):
        dirs[:] = [name for name in dirs if keep(os.path.join(folder, name))]
        yield from (path for name in (*files, *dirs) if keep(path := os.path.join(folder, name)))


def _listed(source: str, is_null: bool) -> Iterator[str]:
    if source == "-":
        stream = sys.stdin.buffer
        yield from impl.iterate_zero_terminated(stream) if is_null else _lines(stream)
        return
    with open(source, "rb") as file:
        yield from impl.iterate_zero_terminated(file) if is_null else _lines(file)


def _lines(file: object) -> Iterator[str]:
    for line in file:  # type: ignore[attr-defined]
        name = os.fsdecode(line.rstrip(b"\n"))
        if name:
            yield name
