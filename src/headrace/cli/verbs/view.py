"""``headrace view``: look at datasets in a browser."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import headrace
from headrace.cli.common import add_follow_links, add_storage, reading_options, say, whole_number_from
from headrace.cli.pipelines import add_pipeline, load_pipeline
from headrace.viewer.server import is_this_machine, view

if TYPE_CHECKING:
    import argparse

HELP = "look at datasets in a browser"
DESCRIPTION = """\
Serve web pages that show datasets: an overview with counts, sizes and classes; a grid of thumbnails to scroll, filter,
sort and select from; single samples; what a model sees of them under many seeds. It is for this machine alone, at a URL
with a secret in it, and nothing is written. Ctrl-C ends it. With --pipeline your own pipeline, its batches and timings
are shown: NAME in FILE is a Loader, a function that gives one (it gets the first PATH if it takes an argument), or a
mapping of fields to lists of ops, for the first PATH. FILE is a Python program, and is run as any program: do that only
with a file that you trust. Needs the packages of headrace[view]."""
_BATCH_SIZE = 64
EXAMPLES = """\
examples:
  headrace view train.beton
  headrace view before.tar after.beton                   several, to switch between
  headrace view 'shards/train-*.tar'                     many files that are one dataset
  headrace view --pipeline train.py:loader               runs train.py; shows what its loader makes
  headrace view s3://bucket/val.parquet --storage-option region=eu-west-1
  headrace view train.beton --no-browser --port 8000     print the URL only; for ssh -L 8000:localhost:8000"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the verb takes."""
    parser.add_argument("datasets", metavar="PATH", nargs="*", help="datasets: paths, URLs or patterns")
    add_pipeline(parser)
    parser.add_argument(
        "--port", type=whole_number_from(0, 65535), default=0, metavar="N", help="to listen at (default: a free one)"
    )
    parser.add_argument(
        "--host", default="127.0.0.1", metavar="ADDR", help="address to listen at (default: 127.0.0.1, this machine)"
    )
    parser.add_argument("--no-browser", action="store_true", help="only print the URL")
    add_follow_links(parser)
    add_storage(parser)


def run(args: argparse.Namespace) -> int:
    """Serve until the user has enough."""
    if not is_this_machine(args.host):
        say(
            f"headrace: warning: with --host {args.host} everybody on the network who knows the URL sees the data, and "
            "it is not encrypted",
            file=sys.stderr,
        )
    with view(
        *_targets(args), host=args.host, port=args.port, browser=not args.no_browser, **reading_options(args)
    ) as viewer:
        say(viewer.url)
        print("Ctrl-C ends it.", flush=True)
        try:
            viewer.wait()
        except KeyboardInterrupt:
            print(file=sys.stderr)  # after the ^C of the terminal
    return 0


def _targets(args: argparse.Namespace) -> list[Any]:
    """The datasets, or with ``--pipeline`` loaders of them."""
    if args.pipeline is None:
        if not args.datasets:
            raise ValueError("name a PATH, or a Loader with --pipeline FILE:NAME")
        return list(args.datasets)
    value = load_pipeline(args.pipeline, args.datasets[0] if args.datasets else None)
    if isinstance(value, headrace.Loader):
        return [value, *args.datasets[1:]]
    if not args.datasets:
        raise ValueError(f"{args.pipeline} are pipelines: name a PATH that they are for")
    first = headrace.open(args.datasets[0], **reading_options(args))
    size = max(1, min(_BATCH_SIZE, len(first)))
    return [headrace.Loader(first, size, order="random", pipelines=value, drop_last=False), *args.datasets[1:]]
