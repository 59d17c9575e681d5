"""``headrace mount``: an archive as a file system."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from headrace.cli.archives import open_archive
from headrace.cli.common import add_follow_links, reading_options, say
from headrace.transfer.mount import mount_archive

if TYPE_CHECKING:
    import argparse

HELP = "show an archive as a read-only file system"
DESCRIPTION = """\
Mount a .barecat with FUSE: every program can then read its files. The file system is read-only and stays until Ctrl-C,
or 'fusermount3 -u DIR'. A file is checked against its checksum when it is opened, and cannot be opened if it is damaged
(input/output error); one of more than 64 MiB is read through for that, the first time. Needs the package of
headrace[mount] and libfuse."""
EXAMPLES = """\
examples:
  mkdir mnt && headrace mount photos.barecat mnt
  headrace mount photos.barecat mnt --background && ls mnt && fusermount3 -u mnt"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the verb takes."""
    parser.add_argument("path", metavar="FILE", help="an archive (.barecat)")
    parser.add_argument("directory", metavar="DIR", help="an empty directory, where it appears")
    parser.add_argument(
        "-b", "--background", action="store_true", help="return when it is mounted; end it with fusermount3 -u"
    )
    parser.add_argument("--allow-other", action="store_true", help="other users may look at it, too")
    add_follow_links(parser)
    parser.add_argument("-q", "--quiet", action="store_true", help="do not say how to end it")


def run(args: argparse.Namespace) -> int:
    """Serve until it is unmounted."""

    def tell() -> None:
        how = "" if args.background else "Ctrl-C, or: "
        end = f"fusermount3 -u {args.directory}"
        say(f"{args.path} is on {args.directory}; end it with {how}{end}", file=sys.stderr)

    open_archive(args.path, **reading_options(args)).close()  # its errors before those of the machine
    mount_archive(
        args.path,
        args.directory,
        background=args.background,
        allow_other=args.allow_other,
        on_ready=(lambda: None) if args.quiet else tell,
        **reading_options(args),
    )
    return 0
