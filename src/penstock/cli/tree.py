"""``penstock tree``: the directories of an archive as a tree."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.cli.common import printable
from penstock.formats.barecat import Archive

if TYPE_CHECKING:
    import argparse

NAME = "tree"
HELP = "show the directories of an archive as a tree"
DESCRIPTION = "Show the directories and files of a .barecat as a tree."
EXAMPLES = """\
examples:
  penstock tree photos.barecat
  penstock tree photos.barecat photos -L 2 -d"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the verb takes."""
    parser.add_argument("path", metavar="FILE", help="an archive (.barecat)")
    parser.add_argument("directory", metavar="DIR", nargs="?", default="", help="where to begin; default the root")
    parser.add_argument("-L", "--levels", type=int, metavar="N", help="go down at most N levels")
    parser.add_argument("-d", "--dirs-only", action="store_true", help="directories only")


def run(args: argparse.Namespace) -> int:
    """Print the tree."""
    with Archive(args.path) as archive:
        next(iter(archive.scandir(args.directory.strip("/"))), None)  # an error before anything is printed
        print(printable(args.directory) or ".")
        counts = [0, 0]
        _print_below(archive, args.directory.strip("/"), "", args.levels, args.dirs_only, counts)
    print(f"\n{counts[0]:,} directories" + ("" if args.dirs_only else f", {counts[1]:,} files"))
    return 0


def _print_below(
    archive: Archive, directory: str, indent: str, levels: int | None, dirs_only: bool, counts: list[int]
) -> None:
    if levels is not None and levels <= 0:
        return
    entries = [entry for entry in archive.scandir(directory) if entry.is_dir() or not dirs_only]
    entries.sort(key=lambda entry: entry.name)
    for position, entry in enumerate(entries):
        is_last = position == len(entries) - 1
        print(f"{indent}{'└── ' if is_last else '├── '}{printable(entry.name)}{'/' if entry.is_dir() else ''}")
        counts[0 if entry.is_dir() else 1] += 1
        if entry.is_dir():
            below = None if levels is None else levels - 1
            _print_below(archive, entry.path, indent + ("    " if is_last else "│   "), below, dirs_only, counts)
