"""``headrace mv``: other names in an archive."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.cli.archives import open_archive

if TYPE_CHECKING:
    import argparse

HELP = "rename a file or directory in an archive"
DESCRIPTION = """\
Rename a file or directory of a .barecat. If NEW is a directory, OLD moves into it. No bytes are copied."""
EXAMPLES = """\
examples:
  headrace mv photos.barecat photos/cat photos/felis"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the verb takes."""
    parser.add_argument("path", metavar="FILE", help="an archive (.barecat)")
    parser.add_argument("old", metavar="OLD", help="the name there is")
    parser.add_argument("new", metavar="NEW", help="the name it gets, or a directory it moves into")


def run(args: argparse.Namespace) -> int:
    """Rename."""
    with open_archive(args.path, "r+") as archive:
        target = args.new
        if archive.is_dir(args.new):
            target = f"{args.new}/{args.old.rstrip('/').rpartition('/')[2]}"
        archive.rename(args.old, target)
    return 0
