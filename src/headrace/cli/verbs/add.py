"""``headrace add``: files and folders into an archive that exists."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from headrace.cli.archives import names_from, open_archive, print_transfer
from headrace.cli.common import add_json, add_progress, add_workers, progress_bar
from headrace.errors import EntryExistsError
from headrace.formats.barecat.pack import pack_files

if TYPE_CHECKING:
    import argparse

HELP = "add files and folders to an archive"
DESCRIPTION = """\
Add files and folders to a .barecat, under their paths, with mode, owner and time. What was added is safe on the disk
when the command ends, and most of it before."""
EXAMPLES = """\
examples:
  headrace add photos.barecat photos/new
  headrace add photos.barecat photos/cat/7.jpg --replace
  find photos -newer stamp -print0 | headrace add photos.barecat -0 -T -"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the verb takes."""
    parser.add_argument("path", metavar="FILE", help="an archive (.barecat)")
    parser.add_argument("paths", metavar="PATH", nargs="*", help="files and folders")
    parser.add_argument("-T", "--files-from", metavar="LIST", help="add the paths listed in LIST (- is standard input)")
    parser.add_argument("-0", "--null", action="store_true", help="the list of -T is separated by NUL")
    parser.add_argument("-C", "--directory", metavar="DIR", default="", help="paths begin in DIR, no part of names")
    parser.add_argument("--exclude", action="append", metavar="PATTERN", help="leave out what matches")
    parser.add_argument("--replace", action="store_true", help="replace files that the archive has already")
    add_workers(parser)
    add_progress(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Add, and say how much."""
    start_s = time.perf_counter()
    paths = names_from(args, args.paths)
    if not paths:
        raise ValueError("nothing to add: name files or folders, or give a list with -T")
    try:
        with open_archive(args.path, "r+") as archive, progress_bar("adding", args, unit="files") as bar:
            result = pack_files(
                archive,
                paths,
                folder=args.directory,
                exclude=args.exclude or (),
                recurse=args.files_from is None,
                replace=args.replace,
                workers=args.workers,
                progress=bar,
            )
    except EntryExistsError as error:
        raise ValueError(f"{error}; give --replace to replace such files") from error
    print_transfer(args, args.path, result, time.perf_counter() - start_s)
    return 0
