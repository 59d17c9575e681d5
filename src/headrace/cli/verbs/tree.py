"""``headrace tree``: the directories of an archive as a tree."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.cli.archives import open_archive
from headrace.cli.common import add_follow_links, reading_options, say, whole_number_from
from headrace.progress import format_count

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from headrace.formats.barecat import Archive, DirInfo, FileInfo

HELP = "show the directories of an archive as a tree"
DESCRIPTION = "Show the directories and files of a .barecat as a tree."
EXAMPLES = """\
examples:
  headrace tree photos.barecat
  headrace tree photos.barecat photos -L 2 -d"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the verb takes."""
    parser.add_argument("path", metavar="FILE", help="an archive (.barecat)")
    parser.add_argument("directory", metavar="DIR", nargs="?", default="", help="where to begin; default the root")
    parser.add_argument("-L", "--levels", type=whole_number_from(0), metavar="N", help="go down at most N levels")
    parser.add_argument("-d", "--dirs-only", action="store_true", help="directories only")
    add_follow_links(parser)


def run(args: argparse.Namespace) -> int:
    """Print the tree."""
    num_dirs = num_files = 0
    with open_archive(args.path, **reading_options(args)) as archive:
        next(iter(archive.scandir(args.directory.strip("/"))), None)  # an error before anything is printed
        say(args.directory or ".")
        for branches, entry in tree_lines(archive, args.directory.strip("/"), args.levels, args.dirs_only):
            say(f"{branches}{entry.name}{'/' if entry.is_dir() else ''}")
            num_dirs += entry.is_dir()
            num_files += entry.is_file()
    print()
    say(format_count(num_dirs, "directory") + ("" if args.dirs_only else f", {format_count(num_files, 'file')}"))
    return 0


def tree_lines(
    archive: Archive, top: str, levels: int | None, dirs_only: bool, *, dirs_first: bool = False
) -> Iterator[tuple[str, FileInfo | DirInfo]]:
    """Each entry with the branches before its name. No recursion: names can be nested as deeply as they like."""

    def entries_in(directory: str) -> list[FileInfo | DirInfo]:
        found = [entry for entry in archive.scandir(directory) if entry.is_dir() or not dirs_only]
        return sorted(found, key=lambda entry: (dirs_first and entry.is_file(), entry.name), reverse=True)

    waiting = [entries_in(top)] if levels is None or levels > 0 else []
    while waiting:
        if not waiting[-1]:
            waiting.pop()
            continue
        entry = waiting[-1].pop()
        before = "".join("│   " if left else "    " for left in waiting[:-1])
        yield before + ("├── " if waiting[-1] else "└── "), entry
        if entry.is_dir() and (levels is None or len(waiting) < levels):
            waiting.append(entries_in(entry.path))
