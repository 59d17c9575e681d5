"""``headrace cat``: one value to standard output."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import headrace
from headrace.cli.archives import cat_file, is_archive
from headrace.cli.common import add_follow_links, add_storage, reading_options, say, select_ranges
from headrace.cli.files import value_as_file
from headrace.cli.previews import describe_sample, print_preview

if TYPE_CHECKING:
    import argparse

    from headrace.types import Dataset

HELP = "write one value to standard output"
DESCRIPTION = """\
Write one value of one sample to standard output, as a file that other programs open: JPEG as stored, raw pixels as
PNG, arrays as npy, numbers, text and JSON as text. Without FIELD, describe all values of the sample. --preview is for
people: a terminal shows the picture (by the protocol of kitty, iTerm2 or sixel where it can, else as half blocks) and
the values below it. HEADRACE_PICTURES=kitty, iterm2, sixel, blocks, blocks256 or text names a way."""
EXAMPLES = """\
examples:
  headrace cat train.beton 17
  headrace cat train.beton 17 image > 17.jpg
  headrace cat train.beton 17 --preview
  headrace cat train.beton cat/7.jpg label
  headrace cat train.beton 17 image --stored | sha256sum
  headrace cat photos.barecat photos/cat/7.jpg > 7.jpg"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the verb takes."""
    parser.add_argument("path", metavar="FILE", help="a dataset; a path or URL")
    parser.add_argument("sample", metavar="SAMPLE", help="number or name")
    parser.add_argument("field", metavar="FIELD", nargs="?", help="which value")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--stored", action="store_true", help="exactly the stored bytes")
    how.add_argument("--preview", action="store_true", help="for people: show the picture and the values")
    add_follow_links(parser)
    add_storage(parser)


def run(args: argparse.Namespace) -> int:
    """Print the value."""
    if is_archive(args.path):
        return cat_file(args)
    with headrace.open(args.path, **reading_options(args)) as dataset:
        return _print_value(args, dataset)


def _print_value(args: argparse.Namespace, dataset: Dataset) -> int:
    (found,) = select_ranges(dataset, [args.sample])
    if len(found) != 1:
        raise ValueError(f"cat writes one sample, and {args.sample} are {len(found):,}")
    index = found[0]
    if args.field is not None and args.field not in dataset.schema:
        raise ValueError(f"no field {args.field!r}; the fields are {', '.join(dataset.schema)}")
    if args.preview:
        fields = None if args.field is None else [args.field]
        return print_preview(lambda box: describe_sample(dataset, index, fields=fields, box=box))
    if args.field is None:
        for line in str(dataset[index]).splitlines():
            say(line)
        return 0
    sys.stdout.flush()
    sys.stdout.buffer.write(value_as_file(dataset, index, args.field, stored=args.stored).data)
    sys.stdout.buffer.flush()
    return 0
