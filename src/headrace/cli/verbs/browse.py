"""``headrace browse``: look around in a dataset or archive on the terminal."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import headrace
from headrace.cli.archives import is_archive, open_archive
from headrace.cli.common import add_follow_links, reading_options
from headrace.cli.shelves import ArchiveShelf, DatasetShelf
from headrace.terminal import find_screen

if TYPE_CHECKING:
    import argparse

    from headrace.cli.shelves import Shelf

HELP = "look around in a dataset or archive on the terminal"
DESCRIPTION = """\
Look around on the terminal: the samples of a dataset, or the directories of a .barecat with their sizes, on the left;
what is in them on the right (pictures, text, JSON, arrays, bytes). Enter or Right opens, Left goes up, s sorts an
archive by size or name, x writes to the current directory, q ends. Pictures are shown as such where the terminal can
(kitty, iTerm2, sixel), else as half blocks; HEADRACE_PICTURES names a way. Needs the package of headrace[browse]."""
EXAMPLES = """\
examples:
  headrace browse train.beton
  headrace browse train.beton cat/7.jpg
  headrace browse photos.barecat photos/cat"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the verb takes."""
    parser.add_argument("path", metavar="FILE", help="a dataset or archive")
    parser.add_argument(
        "place", metavar="PLACE", nargs="?", default="", help="where to begin: a sample, or a directory of a .barecat"
    )
    add_follow_links(parser)


def run(args: argparse.Namespace) -> int:
    """Run the browser until the user has enough."""
    if is_archive(args.path):
        with open_archive(args.path, **reading_options(args)) as archive:
            archive.listdir(args.place)
            return _browse(ArchiveShelf(archive), args.place.strip("/"))
    with headrace.open(args.path, **reading_options(args)) as dataset:
        shelf = DatasetShelf(dataset)
        return _browse(shelf, *(shelf.place_of(args.place) if args.place else ()))


def _browse(shelf: Shelf, *place: str) -> int:
    from headrace.cli.browser import Browser  # needs its extra

    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise ValueError("browse needs a terminal; use 'headrace ls' instead")
    browser = Browser(shelf, *place, screen=find_screen(sys.stdout, sys.stdin.fileno()))
    browser.run()
    return browser.return_code or 0
