"""``headrace repair``: put a dataset in order whose writer was killed."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import headrace
from headrace.cli.common import add_json, print_json, say

if TYPE_CHECKING:
    import argparse

HELP = "put a dataset in order whose writer was killed"
DESCRIPTION = """\
Put a dataset in order whose writer was killed: take back what a .barecat's writer had not committed, finish what it had
announced, and remove hidden files that no process needs any more. What lies beside the archive is not believed: if that
is not what a writer leaves, it is an error, and nothing is changed. It does not mend damage; see 'headrace verify'."""
EXAMPLES = """\
examples:
  headrace repair photos.barecat
  headrace repair train.beton --json"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the verb takes."""
    parser.add_argument("path", metavar="FILE", help="a dataset")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Repair, and say what was done."""
    report = headrace.repair(args.path)
    if args.json:
        print_json(asdict(report))
        return 0
    for line in report.done or ("nothing to put in order",):
        say(f"{args.path}: {line}")
    return 0
