"""``headrace du``: how much the directories of an archive hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.cli.archives import open_archive, shown_path
from headrace.cli.common import add_follow_links, add_json, print_json, reading_options, say, whole_number_from
from headrace.progress import format_bytes

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from headrace.formats.barecat import Archive, DirInfo, FileInfo

HELP = "how much the directories of an archive hold"
DESCRIPTION = "Print bytes and paths of the directories of a .barecat, each with everything below it."
EXAMPLES = """\
examples:
  headrace du photos.barecat -H -L 1
  headrace du photos.barecat -s photos/cat"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the verb takes."""
    parser.add_argument("path", metavar="FILE", help="an archive (.barecat)")
    parser.add_argument("directory", metavar="DIR", nargs="?", default="", help="where to begin; default the root")
    parser.add_argument("-a", "--all", action="store_true", help="also files")
    parser.add_argument("-s", "--summarize", action="store_true", help="only the total")
    parser.add_argument("-H", "--human", action="store_true", help="sizes for people")
    parser.add_argument("-L", "--levels", type=whole_number_from(0), metavar="N", help="go down at most N levels")
    add_json(parser)
    add_follow_links(parser)


def run(args: argparse.Namespace, *, base: str = "") -> int:
    """Print one line for each directory, as seen from ``base``."""
    with open_archive(args.path, **reading_options(args)) as archive:
        levels = 0 if args.summarize else args.levels
        rows = list(du_rows(archive, args.directory.strip("/"), levels, args.all))
    if args.json:
        print_json([{"path": path, "size_bytes": size} for path, size in rows])
        return 0
    for path, size in rows:
        say(format_bytes(size) if args.human else size, shown_path(path, base) or ".", sep="\t")
    return 0


def du_rows(archive: Archive, top: str, levels: int | None, with_files: bool) -> Iterator[tuple[str, int]]:
    """A directory after all that is in it. No recursion: names can be nested as deeply as they like."""
    waiting: list[tuple[FileInfo | DirInfo, Iterator[FileInfo | DirInfo]]] = []

    def enter(entry: FileInfo | DirInfo) -> None:
        is_listed = entry.is_dir() and (levels is None or len(waiting) < levels)
        below = sorted(archive.scandir(entry.path), key=lambda info: info.path) if is_listed else []
        waiting.append((entry, iter(below)))

    enter(archive.stat(top))
    while waiting:
        directory, below = waiting[-1]
        entry = next(below, None)
        if entry is None:
            waiting.pop()
            yield directory.path, getattr(directory, "size_tree" if directory.is_dir() else "size")
        elif entry.is_dir():
            enter(entry)
        elif with_files:
            yield entry.path, getattr(entry, "size", 0)
