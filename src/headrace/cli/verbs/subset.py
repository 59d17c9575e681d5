"""``headrace subset``: a part of an archive as a new one."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from headrace.cli.archives import add_rules, new_archive, print_transfer, refuse_itself
from headrace.cli.common import (
    add_follow_links,
    add_json,
    add_progress,
    parse_size,
    progress_bar,
    reading_options,
)
from headrace.transfer.merge import merge_archives

if TYPE_CHECKING:
    import argparse

NAME = "subset"
HELP = "copy a part of an archive to a new one"
DESCRIPTION = """\
Copy those files of a .barecat that patterns choose. Rules are tried in the order in which they are given, and the first
that matches decides; what no rule matches is copied. ** crosses slashes."""
EXAMPLES = """\
examples:
  headrace subset photos.barecat -o cats.barecat -i 'photos/cat/**' -x '**'
  headrace subset photos.barecat -o clean.barecat -x '**/*.tmp'"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the verb takes."""
    parser.add_argument("path", metavar="FILE", help="an archive (.barecat)")
    parser.add_argument("-o", "--out", metavar="OUT", required=True, help="archive to write")
    add_rules(parser)
    parser.add_argument("-s", "--shard-size", type=parse_size, metavar="SIZE", help="limit of a shard")
    parser.add_argument("-f", "--force", action="store_true", help="replace OUT if it exists")
    add_follow_links(parser)
    add_progress(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Copy, and say how much."""
    start_s = time.perf_counter()
    refuse_itself(args.out, [args.path])
    with (
        new_archive(args.out, shard_size=args.shard_size, force=args.force) as target,
        progress_bar("copying", args, unit="files") as bar,
    ):
        result = merge_archives([args.path], target, rules=args.rules, progress=bar, **reading_options(args))
    print_transfer(args, args.out, result, time.perf_counter() - start_s)
    return 0
