"""``headrace help``: explain the command or a verb."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse

HELP = "explain the command, or a verb"
DESCRIPTION = "Explain the command, or one verb with its options and examples; the same as 'headrace VERB --help'."
EXAMPLES = """\
examples:
  headrace help
  headrace help create"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the verb takes."""
    parser.add_argument("topic", metavar="VERB", nargs="?", help="which verb; default the command")


def run(args: argparse.Namespace) -> int:
    """Print the help."""
    command = args.whole_command
    explained = command if args.topic is None else command.verbs.choices[args.topic]
    explained.print_help(sys.stdout)
    return 0
