"""``headrace version``: which headrace this is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import headrace
from headrace.cli.common import say

if TYPE_CHECKING:
    import argparse

HELP = "print the version"
DESCRIPTION = "Print the version of headrace; the same as 'headrace --version'."
EXAMPLES = """\
examples:
  headrace version"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare that the verb takes nothing."""


def run(args: argparse.Namespace) -> int:
    """Print it."""
    say(f"headrace {headrace.__version__}")
    return 0
