"""``headrace rm``: files and directories out of an archive."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.cli.archives import open_archive

if TYPE_CHECKING:
    import argparse

HELP = "remove files and directories from an archive"
DESCRIPTION = """\
Remove files and, with -r, directories from a .barecat. All of them or none are removed. Their bytes stay as gaps until
'headrace defrag'."""
EXAMPLES = """\
examples:
  headrace rm photos.barecat photos/cat/7.jpg
  headrace rm -r photos.barecat photos/dog"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the verb takes."""
    parser.add_argument("path", metavar="FILE", help="an archive (.barecat)")
    parser.add_argument("names", metavar="NAME", nargs="+", help="files and directories in it")
    parser.add_argument("-r", "--recursive", action="store_true", help="also directories, with all that is below")


def run(args: argparse.Namespace) -> int:
    """Remove."""
    with open_archive(args.path, "r+") as archive:
        for name in args.names:  # look first, so that a wrong name changes nothing
            info = archive.stat(name)
            if info.is_dir() and not args.recursive:
                raise IsADirectoryError(f"{args.path}: {name} is a directory; give -r to remove it with all below")
        for name in args.names:
            if archive.is_dir(name):
                archive.rmtree(name)
            elif archive.is_file(name):  # it may have been below a directory that was removed
                archive.remove(name)
    return 0
