"""``headrace subset``: a part of an archive or dataset as a new one."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

import headrace
from headrace.cli.archives import add_rules, new_archive, print_transfer, refuse_itself
from headrace.cli.common import (
    add_follow_links,
    add_json,
    add_progress,
    parse_size,
    print_json,
    progress_bar,
    reading_options,
    say,
)
from headrace.progress import format_bytes, format_count
from headrace.transfer.merge import merge_archives
from headrace.transfer.sample_list import parse_sample_list, write_samples

if TYPE_CHECKING:
    import argparse

HELP = "copy a part of an archive or dataset to a new one"
DESCRIPTION = """\
Copy those files of a .barecat that patterns choose. Rules are tried in the order in which they are given, and the first
that matches decides; what no rule matches is copied. ** crosses slashes.
With --samples: copy the samples of a dataset of any format that a list names, in its order, one number or range (10:20)
on a line. 'headrace view' saves such lists."""
EXAMPLES = """\
examples:
  headrace subset photos.barecat -o cats.barecat -i 'photos/cat/**' -x '**'
  headrace subset photos.barecat -o clean.barecat -x '**/*.tmp'
  headrace subset train.beton -o part.beton --samples samples.txt
  seq 0 100 9900 | headrace subset train.beton -o part.beton --samples -"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the verb takes."""
    parser.add_argument("path", metavar="FILE", help="an archive (.barecat); with --samples any dataset")
    parser.add_argument("-o", "--out", metavar="OUT", required=True, help="archive or dataset to write")
    parser.add_argument("--samples", metavar="LIST", help="file of numbers of samples, one on a line; - reads them")
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
    if args.samples is not None:
        return _copy_samples(args, start_s)
    with (
        new_archive(args.out, shard_size=args.shard_size, force=args.force) as target,
        progress_bar("copying", args, unit="files") as bar,
    ):
        result = merge_archives([args.path], target, rules=args.rules, progress=bar, **reading_options(args))
    print_transfer(args, args.out, result, time.perf_counter() - start_s)
    return 0


def _copy_samples(args: argparse.Namespace, start_s: float) -> int:
    if args.rules or args.shard_size is not None:
        raise ValueError("--samples takes no patterns (-i, -x) and no --shard-size; they are for archives")
    with headrace.open(args.path, **reading_options(args)) as dataset, progress_bar("copying", args) as bar:
        indices = parse_sample_list(_lines(args.samples), len(dataset))
        size_bytes = write_samples(args.out, dataset, indices, force=args.force, progress=bar)
    facts = {"samples": len(indices), "size_bytes": size_bytes}
    if args.json:
        print_json({"path": args.out, **facts, "seconds": time.perf_counter() - start_s})
    elif not args.quiet:
        say(f"{args.out}: {format_count(len(indices), 'sample')}, {format_bytes(size_bytes)}")
    return 0


def _lines(name: str) -> list[str]:
    if name == "-":
        return sys.stdin.readlines()
    with open(name, encoding="utf-8", errors="surrogateescape") as file:
        return file.readlines()
