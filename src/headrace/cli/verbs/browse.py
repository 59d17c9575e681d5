"""``headrace browse``: look around in an archive on the terminal."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from headrace.cli.archives import open_archive
from headrace.cli.common import add_follow_links, reading_options

if TYPE_CHECKING:
    import argparse

NAME = "browse"
HELP = "look around in an archive on the terminal"
DESCRIPTION = """\
Look around in a .barecat: directories with their sizes on the left, what is in a file on the right (pictures, text,
JSON, arrays, bytes). Enter or Right opens, Left goes up, s sorts by size or name, x writes to the current directory, q
ends. Needs the package of headrace[browse]."""
EXAMPLES = """\
examples:
  headrace browse photos.barecat
  headrace browse photos.barecat photos/cat"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the verb takes."""
    parser.add_argument("path", metavar="FILE", help="an archive (.barecat)")
    parser.add_argument("directory", metavar="DIR", nargs="?", default="", help="where to begin; default the root")
    add_follow_links(parser)


def run(args: argparse.Namespace) -> int:
    """Run the browser until the user has enough."""
    with open_archive(args.path, **reading_options(args)) as archive:
        archive.listdir(args.directory)
        from headrace.cli.browser import ArchiveBrowser  # needs its extra

        if not (sys.stdin.isatty() and sys.stdout.isatty()):
            raise ValueError("browse needs a terminal; use 'headrace ls', 'headrace tree' or 'headrace shell' instead")
        browser = ArchiveBrowser(archive, args.directory.strip("/"))
        browser.run()
    return browser.return_code or 0
