"""``headrace info``: what is in a dataset."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.cli.common import add_follow_links, add_json, add_storage, print_json, reading_options, say
from headrace.formats.summary import summarize

if TYPE_CHECKING:
    import argparse

NAME = "info"
HELP = "schema, counts, sizes and annex of a dataset"
DESCRIPTION = "Say what is in a dataset: fields, counts, sizes, image modes, page use, annex. Nothing is decoded."
EXAMPLES = """\
examples:
  headrace info train.beton
  headrace info train.beton --json | jq .fields
  headrace info s3://bucket/train.beton --storage-option region=eu-west-1"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the verb takes."""
    parser.add_argument("path", metavar="FILE", help="a dataset; a path or URL")
    add_json(parser)
    add_follow_links(parser)
    add_storage(parser)


def run(args: argparse.Namespace) -> int:
    """Print the summary."""
    summary = summarize(args.path, **reading_options(args))
    if args.json:
        print_json(summary.values)
        return 0
    say(f"{args.path}: {summary.headline}")
    if summary.fields:
        print("\nfields")
        for name, words in summary.fields.items():
            say(f"  {name:<16} {words}")
    if summary.fields and summary.details:
        print("\nstorage")
    for name, words in summary.details:
        say(f"  {name:<16} {words}")
    return 0
