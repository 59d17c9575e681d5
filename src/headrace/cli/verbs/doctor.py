"""``headrace doctor``: what holds a training's loader back, and what to change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import headrace
from headrace.cli.common import (
    add_follow_links,
    add_json,
    add_storage,
    number_from,
    print_json,
    reading_options,
    say,
)
from headrace.cli.pipelines import add_pipeline, load_pipeline

if TYPE_CHECKING:
    import argparse

HELP = "what holds the loader back, and what to change"
DESCRIPTION = """\
Measure for some seconds how fast batches come from a dataset, say what binds (disk, network, decode, resize, an op in
Python by its name, the copy to the device), and what to change, with what that would bring: measured, computed from
what was measured, or a plain fact. Nothing is changed. Without --pipeline the usual training is measured: random order,
and for pictures RandomResizedCrop(224), flip and float16. With --pipeline it is your own: NAME in FILE is a Loader, a
function that gives one (it gets DATASET if it takes an argument), or a mapping of fields to lists of ops. FILE is a
Python program, and is run as any program: do that only with a file that you trust. Batches go to a consumer that does
nothing: whether your model is the slow part is not seen here. For that, call headrace.diagnose(loader) after a loop of
your training, or print(loader.stats)."""
EXAMPLES = """\
examples:
  headrace doctor train.beton
  headrace doctor train.beton --seconds 20
  headrace doctor --pipeline train.py:loader            runs train.py; what it trains with should not start at import
  headrace doctor train.beton --pipeline train.py:make_loader
  headrace doctor train.beton --json | jq '.advice[].text'"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the verb takes."""
    parser.add_argument("path", metavar="DATASET", nargs="?", help="a dataset; a path or URL")
    add_pipeline(parser)
    parser.add_argument(
        "--seconds",
        type=number_from(0.1, 3600),
        default=5.0,
        metavar="S",
        help="about how long to measure (default: 5)",
    )
    add_json(parser)
    add_follow_links(parser)
    add_storage(parser)


def run(args: argparse.Namespace) -> int:
    """Print the diagnosis."""
    found = headrace.diagnose(**_target(args), seconds=args.seconds)
    if args.json:
        print_json(found.facts())
        return 0
    for line in str(found).splitlines():
        say(line)
    return 0


def _target(args: argparse.Namespace) -> dict[str, Any]:
    """What ``diagnose`` is to look at."""
    value = None if args.pipeline is None else load_pipeline(args.pipeline, args.path)
    if isinstance(value, headrace.Loader):
        return {"target": value}
    if args.path is None:
        raise ValueError("name a DATASET, or a Loader with --pipeline FILE:NAME")
    return {"target": headrace.open(args.path, **reading_options(args)), "pipelines": value}
