"""``penstock subset``: a part of an archive as a new one."""

from __future__ import annotations

import argparse
import time
from typing import Any

from penstock.cli.archives import print_transfer
from penstock.cli.common import add_json, add_progress, parse_size, progress_bar
from penstock.formats.barecat import Archive, remove_archive
from penstock.formats.barecat.merging import merge_archives
from penstock.formats.barecat.names import archive_exists

NAME = "subset"
HELP = "copy a part of an archive to a new one"
DESCRIPTION = """\
Copy those files of a .barecat that patterns choose. Rules are tried in the order in which they are given, and the first
that matches decides; what no rule matches is copied. ** crosses slashes."""
EXAMPLES = """\
examples:
  penstock subset photos.barecat -o cats.barecat -i 'photos/cat/**' -x '**'
  penstock subset photos.barecat -o clean.barecat -x '**/*.tmp'"""


class _AppendRule(argparse.Action):
    """Collects includes and excludes in one list, in their order."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        rules = [*(getattr(namespace, "rules", None) or []), (option_string in ("-i", "--include"), values)]
        namespace.rules = rules


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the verb takes."""
    parser.add_argument("path", metavar="FILE", help="an archive (.barecat)")
    parser.add_argument("-o", "--out", metavar="OUT", required=True, help="archive to write")
    parser.add_argument(
        "-i", "--include", dest="rules", action=_AppendRule, metavar="PATTERN", help="copy what matches"
    )
    parser.add_argument("-x", "--exclude", dest="rules", action=_AppendRule, metavar="PATTERN", help="leave it out")
    parser.add_argument("-s", "--shard-size", type=parse_size, metavar="SIZE", help="limit of a shard")
    parser.add_argument("-f", "--force", action="store_true", help="replace OUT if it exists")
    add_progress(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Copy, and say how much."""
    start_s = time.perf_counter()
    if archive_exists(args.out) and not args.force:
        raise FileExistsError(f"{args.out} exists; give --force to replace it")
    try:
        with Archive(args.out, "w", shard_size=args.shard_size) as target, progress_bar("copying", args) as bar:
            result = merge_archives([args.path], target, rules=args.rules or (), progress=bar)
    except BaseException:
        remove_archive(args.out)
        raise
    print_transfer(args, args.out, result, time.perf_counter() - start_s)
    return 0
