"""``headrace doctor``: what holds a training's loader back, and what to change."""

from __future__ import annotations

import inspect
import os
import runpy
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import headrace
from headrace.cli.common import (
    add_follow_links,
    add_json,
    add_storage,
    message_of,
    number_from,
    print_json,
    reading_options,
    say,
)

if TYPE_CHECKING:
    import argparse

NAME = "doctor"
HELP = "what holds the loader back, and what to change"
DESCRIPTION = """\
Measure for some seconds how fast batches come from a dataset, say what binds (disk, network, decode, resize, an op in
Python by its name, the copy to the device), and what to change, with what that would bring: measured, computed from
what was measured, or a plain fact. Nothing is changed. Without --pipeline the usual training is measured: random order,
and for pictures RandomResizedCrop(224), flip and float16. With --pipeline it is your own: NAME in FILE is a Loader, a
function that gives one (it gets DATASET if it takes an argument), or a mapping of fields to lists of ops. FILE is a
Python program, and is run as any program: do that only with a file that you trust."""
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
    parser.add_argument(
        "--pipeline", metavar="FILE:NAME", help="your loader, a function that gives it, or pipelines; runs FILE"
    )
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
    value = None if args.pipeline is None else _named(args.pipeline)
    if callable(value) and not isinstance(value, headrace.Loader):
        value = _called(args.pipeline, value, args.path)
    if isinstance(value, headrace.Loader):
        own = os.fspath(value.dataset.path)
        if args.path is not None and os.path.abspath(args.path) != os.path.abspath(own):
            raise ValueError(f"{args.pipeline} is a loader of {own}; leave {args.path} out")
        return {"target": value}
    if value is not None and not isinstance(value, Mapping):
        raise TypeError(
            f"{args.pipeline} is of the type {type(value).__name__}; expected a Loader, a function that gives one, or "
            "a mapping of fields to lists of ops"
        )
    if args.path is None:
        raise ValueError("name a DATASET, or a Loader with --pipeline FILE:NAME")
    return {"target": headrace.open(args.path, **reading_options(args)), "pipelines": value}


def _named(word: str) -> Any:
    """Run a file, and give what a name in it stands for."""
    file, _, name = word.rpartition(":")
    if not file or not name.isidentifier():
        raise ValueError(f"--pipeline takes FILE:NAME, such as train.py:loader, got {word!r}")
    if not os.path.isfile(file):
        raise FileNotFoundError(f"{file} of --pipeline does not exist")
    sys.path.insert(0, os.path.dirname(os.path.abspath(file)))  # its neighbours can be imported, as from any program
    try:
        names = runpy.run_path(file, run_name="headrace_doctor")
    except (Exception, SystemExit) as error:
        raise ValueError(_failed(file, error)) from error
    finally:
        sys.path.pop(0)
    if name not in names:
        known = ", ".join(sorted(own for own in names if not own.startswith("_"))[:20])
        raise ValueError(f"{file} has no {name}; it has {known or 'no names'}")
    return names[name]


def _called(word: str, function: Any, path: str | None) -> Any:
    try:
        takes_path = bool(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        takes_path = False
    if takes_path and path is None:
        raise ValueError(f"{word} takes an argument: name a DATASET")
    try:
        return function(path) if takes_path else function()
    except (Exception, SystemExit) as error:
        raise ValueError(_failed(word, error)) from error


def _failed(what: str, error: BaseException) -> str:
    return f"{what} failed with {type(error).__name__}: {message_of(error)} (--traceback shows where)"
