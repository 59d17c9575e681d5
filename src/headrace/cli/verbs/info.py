"""``headrace info``: what is in a dataset."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import headrace
from headrace.cli.common import add_follow_links, add_json, add_storage, print_json, reading_options, say
from headrace.cli.plots import charts_of, check_target, write_plot
from headrace.formats.summary import summarize
from headrace.progress import format_count

if TYPE_CHECKING:
    import argparse

    from headrace.types import Summary

HELP = "schema, counts, sizes and annex of a dataset"
DESCRIPTION = """\
Say what is in a dataset: fields, counts, sizes, image modes, page use, annex. Nothing is decoded. --plot draws sizes,
widths and heights of pictures, classes and page use as one picture; a file that is there and no such plot is kept."""
EXAMPLES = """\
examples:
  headrace info train.beton
  headrace info train.beton --json | jq .fields
  headrace info train.beton --plot train.png
  headrace info s3://bucket/train.beton --storage-option region=eu-west-1"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the verb takes."""
    parser.add_argument("path", metavar="FILE", help="a dataset; a path or URL")
    parser.add_argument("--plot", metavar="OUT", help="also draw it, as OUT.png, OUT.svg or OUT.html")
    add_json(parser)
    add_follow_links(parser)
    add_storage(parser)


def run(args: argparse.Namespace) -> int:
    """Print the summary, and draw it."""
    if args.plot is not None:
        check_target(args.plot)
    summary = summarize(args.path, **reading_options(args))
    if args.json:
        print_json(summary.values)
    else:
        _print(args.path, summary)
    if args.plot is not None:
        _plot(args, summary)
    return 0


def _plot(args: argparse.Namespace, summary: Summary) -> None:
    with headrace.open(args.path, **reading_options(args)) as dataset:
        charts = charts_of(dataset)
    if not charts:
        raise ValueError(f"{args.path}: there is nothing to draw: no pictures, bytes, classes or pages")
    write_plot(charts, args.plot, title=os.path.basename(str(args.path)) or str(args.path), facts=summary.headline)
    say(f"{args.plot}: {format_count(len(charts), 'chart')}", file=sys.stderr)


def _print(path: str, summary: Summary) -> None:
    say(f"{path}: {summary.headline}")
    if summary.fields:
        print("\nfields")
        for name, words in summary.fields.items():
            say(f"  {name:<16} {words}")
    if summary.fields and summary.details:
        print("\nstorage")
    for name, words in summary.details:
        say(f"  {name:<16} {words}")
