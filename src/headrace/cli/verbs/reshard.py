"""``headrace reshard``: another size limit for the shards of an archive."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.cli.archives import open_archive
from headrace.cli.common import add_progress, parse_size, progress_bar, say
from headrace.formats.barecat.edit.maintenance import reshard
from headrace.formats.barecat.names import shard_numbers
from headrace.progress import format_bytes, format_count

if TYPE_CHECKING:
    import argparse

HELP = "give the shards of an archive another size limit"
DESCRIPTION = """\
Pack the files of a .barecat anew into shards of at most SIZE bytes. It can be interrupted at any point. For a time the
archive takes twice its space."""
EXAMPLES = """\
examples:
  headrace reshard photos.barecat -s 10G"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the verb takes."""
    parser.add_argument("path", metavar="FILE", help="an archive (.barecat)")
    parser.add_argument("-s", "--shard-size", type=parse_size, metavar="SIZE", required=True, help="the new limit")
    add_progress(parser)


def run(args: argparse.Namespace) -> int:
    """Reshard, and say what came out."""
    with open_archive(args.path, "r+") as archive, progress_bar("resharding", args, unit="files") as bar:
        reshard(archive, args.shard_size, progress=bar)
    if not args.quiet:
        shards = format_count(len(shard_numbers(args.path)), "shard")
        say(f"{args.path}: {shards} of at most {format_bytes(args.shard_size)}")
    return 0
