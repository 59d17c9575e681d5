"""``penstock convert``: a dataset of one format into a file of another."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import penstock
from penstock.cli.common import add_json, add_progress, add_workers, print_json, progress_bar
from penstock.formats import convert
from penstock.progress import format_bytes

if TYPE_CHECKING:
    import argparse

NAME = "convert"
HELP = "write a dataset into a file of another format"
DESCRIPTION = """\
Write the samples of SRC into DST, whose ending decides the format. JPEG pictures and bytes are copied as they are
stored. A packed folder (.ffr) of pictures becomes a dataset with an image field; samples with names become a packed
folder in an .ffr. DST appears when it is complete, or not at all."""
EXAMPLES = """\
examples:
  penstock convert photos.ffr photos.beton
  penstock convert train.beton train.ffr --field image
  penstock convert parts/ train.beton --decode json
  penstock convert photos.ffr photos.beton --decode bytes     every file byte for byte, pictures or not"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the verb takes."""
    parser.add_argument("source", metavar="SRC", help="a dataset")
    parser.add_argument("out", metavar="DST", help="file to write, for example train.beton or train.ffr")
    parser.add_argument("--field", metavar="NAME", help="only this field; needed where DST can hold one")
    parser.add_argument(
        "--decode",
        choices=["bytes", "json", "text", "image"],
        help="what the samples of an .ffr are (default: image where all names say so, else bytes)",
    )
    parser.add_argument("--shuffle", type=int, metavar="SEED", help="store in an order shuffled with this seed")
    parser.add_argument("--no-names", action="store_true", help="leave the names of the samples out")
    parser.add_argument("-f", "--force", action="store_true", help="replace DST if it exists")
    add_workers(parser)
    add_progress(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Convert, and say what came out."""
    if os.path.exists(args.out) and not args.force:
        raise FileExistsError(f"{args.out} exists; give --force to replace it")
    start_s = time.perf_counter()
    with progress_bar("converting", args) as bar:
        convert(
            args.source,
            args.out,
            field=args.field,
            decode=args.decode,
            names=not args.no_names,
            workers=args.workers,
            shuffle_seed=args.shuffle,
            progress=bar or False,
        )
    elapsed_s = time.perf_counter() - start_s
    samples, size_bytes = len(penstock.open(args.out)), os.path.getsize(args.out)
    if args.json:
        print_json({"path": args.out, "samples": samples, "size_bytes": size_bytes, "seconds": elapsed_s})
    elif not args.quiet:
        print(f"{args.out}: {samples:,} samples, {format_bytes(size_bytes)}, {samples / elapsed_s:,.0f} samples/s")
    return 0
