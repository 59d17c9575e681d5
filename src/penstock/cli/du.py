"""``penstock du``: how much the directories of an archive hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.cli.archives import shown_path
from penstock.cli.common import add_json, print_json
from penstock.formats.barecat import Archive
from penstock.progress import format_bytes

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

NAME = "du"
HELP = "how much the directories of an archive hold"
DESCRIPTION = "Print bytes and paths of the directories of a .barecat, each with everything below it."
EXAMPLES = """\
examples:
  penstock du photos.barecat -H -L 1
  penstock du photos.barecat -s photos/cat"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the verb takes."""
    parser.add_argument("path", metavar="FILE", help="an archive (.barecat)")
    parser.add_argument("directory", metavar="DIR", nargs="?", default="", help="where to begin; default the root")
    parser.add_argument("-a", "--all", action="store_true", help="also files")
    parser.add_argument("-s", "--summarize", action="store_true", help="only the total")
    parser.add_argument("-H", "--human", action="store_true", help="sizes for people")
    parser.add_argument("-L", "--levels", type=int, metavar="N", help="go down at most N levels")
    add_json(parser)


def run(args: argparse.Namespace, *, base: str = "") -> int:
    """Print one line for each directory, as seen from ``base``."""
    with Archive(args.path) as archive:
        levels = 0 if args.summarize else args.levels
        rows = list(_rows(archive, args.directory.strip("/"), levels, args.all))
    if args.json:
        print_json([{"path": path, "size_bytes": size} for path, size in rows])
        return 0
    for path, size in rows:
        print(f"{format_bytes(size) if args.human else size}\t{shown_path(path, base) or '.'}")
    return 0


def _rows(archive: Archive, directory: str, levels: int | None, with_files: bool) -> Iterator[tuple[str, int]]:
    info = archive.stat(directory)
    if levels is None or levels > 0:
        for entry in sorted(archive.scandir(directory), key=lambda entry: entry.path):
            if entry.is_dir():
                yield from _rows(archive, entry.path, None if levels is None else levels - 1, with_files)
            elif with_files:
                yield entry.path, getattr(entry, "size", 0)
    size: int = getattr(info, "size_tree" if info.is_dir() else "size")
    yield info.path, size
