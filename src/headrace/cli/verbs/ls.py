"""``headrace ls``: the samples of a dataset."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

import numpy as np

import headrace
from headrace.cli.archives import is_archive, list_archive
from headrace.cli.common import (
    add_follow_links,
    add_json,
    add_storage,
    print_json_list,
    reading_options,
    say,
    select_ranges,
)

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from headrace.types import Dataset

HELP = "list samples"
DESCRIPTION = """\
List samples by number and name; -l adds the numbers, sizes and picture sizes of their fields. Of a .barecat, list what
is in a directory; -l adds mode, owner, size and time (UTC)."""
EXAMPLES = """\
examples:
  headrace ls train.beton | head
  headrace ls -l train.beton 0:20
  headrace ls --json train.beton cat/7.jpg
  headrace ls -l photos.barecat photos/cat"""
_BLOCK = 1024


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the verb takes."""
    parser.add_argument("path", metavar="FILE", help="a dataset; a path or URL")
    parser.add_argument("samples", metavar="SAMPLE", nargs="*", help="numbers, ranges (10:20) or names; default all")
    parser.add_argument("-l", "--long", action="store_true", help="show the fields, too")
    parser.add_argument("-R", "--recursive", action="store_true", help=".barecat: also what is below directories")
    add_json(parser)
    add_follow_links(parser)
    add_storage(parser)


def run(args: argparse.Namespace, *, base: str = "") -> int:
    """Print one line for each sample; the paths of an archive as seen from ``base``."""
    if is_archive(args.path):
        return list_archive(args, base=base)
    with headrace.open(args.path, **reading_options(args)) as dataset:
        return _print_samples(args, dataset)


def _print_samples(args: argparse.Namespace, dataset: Dataset) -> int:
    ranges = select_ranges(dataset, args.samples)
    if args.json:
        print_json_list(_rows(dataset, ranges, is_long=True))
        return 0
    width = len(str(len(dataset)))
    for row in _rows(dataset, ranges, is_long=args.long):
        facts = "  ".join(f"{name}={value}" for name, value in row["fields"].items())
        say(*(part for part in (f"{row['index']:>{width}}", row["name"] or "", facts) if part), sep="  ")
    return 0


class _Row(TypedDict):
    index: int
    name: str | None
    fields: dict[str, object]


def _rows(dataset: Dataset, ranges: list[range], *, is_long: bool) -> Iterator[_Row]:
    keys = dataset.keys
    for block in (part[start : start + _BLOCK] for part in ranges for start in range(0, len(part), _BLOCK)):
        facts = (
            dataset.rows(np.arange(block.start, block.stop, block.step, dtype=np.int64))
            if is_long
            else [{} for _ in block]
        )
        for i, fields in zip(block, facts, strict=True):
            yield {"index": i, "name": keys[i] if keys is not None else None, "fields": fields}
