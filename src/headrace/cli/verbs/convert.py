"""``headrace convert``: a dataset or archive of one format into another."""

from __future__ import annotations

import argparse
import os
import sys
import time
from typing import TYPE_CHECKING

import headrace
from headrace.cli.archives import broken_named, print_left_out, print_lines, print_plan, print_transfer
from headrace.cli.common import (
    add_dry_run,
    add_engine,
    add_follow_links,
    add_json,
    add_max_size,
    add_progress,
    add_storage,
    add_workers,
    parse_size,
    print_json,
    reading_options,
    say,
    whole_number_from,
)
from headrace.formats.open import format_of_name
from headrace.progress import format_bytes, format_count
from headrace.transfer.containers import KINDS, STREAM_KINDS, ending_of

if TYPE_CHECKING:
    from typing import BinaryIO

_OF_SEED = -1  # --shuffle without a seed of its own
HELP = "any format into any other, also tar, zip and folders"
DESCRIPTION = """\
Write SRC into DST, whose ending decides the format. Between .barecat, .tar (also .gz, .bz2, .xz, .zst), .zip and
folders go files with their paths, modes and times, one after the other: nothing is unpacked on the way. Names that
lead out of DST are refused, links inside a tar become files, devices and pipes are left out and named. Between all
other formats go samples: pictures and bytes are copied as they are stored; names, names of classes and metadata are
kept. A packed folder (.ffr) of pictures becomes a .beton with an image field; samples with names become a packed folder
in an .ffr, and files in a .barecat, tar, zip or folder. Files beside a picture that have its name, as in WebDataset
shards, become fields: 7.jpg the image, 7.cls the label, 7.txt the text, 7.json the json. What DST cannot hold is named
before anything is written; fields that would be lost are an error, unless --field or --map say which are wanted. A
compressed tar that becomes samples is unpacked into a temporary file beside DST. SRC may be -, a tar on standard input
(say --from), and DST may be -, a tar or zip on standard output (say --to). DST appears when it is complete, or not at
all; with --resume, each file of a set as soon as it is complete."""
EXAMPLES = """\
examples:
  headrace convert photos.tar.gz photos.barecat -s 50G
  headrace convert photos.barecat photos.zip
  headrace convert photos.barecat photos.beton
  headrace convert photos.tar.gz photos.beton
  headrace convert photos.beton photos.zip
  headrace convert photos.ffr photos.beton
  headrace convert train.beton train.ffr --field image
  headrace convert shard-0000.tar shard.beton --dry-run       what would be written?
  headrace convert parts/ train.beton --decode json
  headrace convert train.beton train.parquet --map image=jpg --map label=cls
  headrace convert train.h5 train-%06d.beton --shard-size 1G --resume      go on where it was interrupted
  headrace convert train.tar train-%06d.beton --shard-samples 5000 --engine ray --address HEAD:6379
  headrace convert train.parquet small.beton --limit 1000 --shuffle --seed 7 --max-side 256 --verify
  headrace convert photos.ffr photos.beton --decode bytes     every file byte for byte, pictures or not
  headrace convert 's3://bucket/train-*.tar' train.beton
  curl URL | headrace convert - photos.barecat --from tar.gz
  headrace convert photos.barecat - --to tar.zst | ssh HOST 'tar -x --zstd'"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the verb takes."""
    parser.add_argument(
        "source", metavar="SRC", help="a dataset, archive, tar, zip or folder, or a URL; - is standard input"
    )
    parser.add_argument("out", metavar="DST", help="what to write, such as train.beton or x.zip; - is standard output")
    parser.add_argument(
        "--from", dest="source_kind", choices=STREAM_KINDS, help="what SRC is, where its name does not say"
    )
    parser.add_argument("--to", dest="out_kind", choices=STREAM_KINDS, help="what DST is, where its name does not say")
    parser.add_argument(
        "--field", action="append", metavar="NAME", help="only this field; may be repeated; for a DST that holds one"
    )
    parser.add_argument(
        "--map",
        action="append",
        type=_parse_renaming,
        metavar="OLD=NEW",
        help="another name for a field; OLD= leaves it out; may be repeated",
    )
    parser.add_argument(
        "--decode",
        choices=["bytes", "json", "text", "npy", "msgpack", "image"],
        help="what bytes are that SRC does not explain (of an .ffr: image where all names say so, else bytes)",
    )
    parser.add_argument(
        "--image-mode",
        choices=["jpg", "raw", "smart", "proportion"],
        help="how pictures are stored (default: as they are; jpg where DST holds no other files)",
    )
    parser.add_argument(
        "--quality", type=whole_number_from(1, 100), help="JPEG quality where encoding is needed (default: 90)"
    )
    parser.add_argument(
        "--max-side", type=whole_number_from(1, 65535), metavar="PIXELS", help="shrink pictures with a longer side"
    )
    parser.add_argument(
        "--smart-threshold", type=parse_size, metavar="SIZE", help="image mode smart: jpg above this raw size"
    )
    parser.add_argument("--limit", type=whole_number_from(0), metavar="N", help="only the first N samples")
    parser.add_argument(
        "--shuffle",
        type=whole_number_from(0, 2**64 - 1),
        nargs="?",
        const=_OF_SEED,
        metavar="SEED",
        help="store in an order shuffled with this seed, or that of --seed (default: 0)",
    )
    parser.add_argument("--seed", type=whole_number_from(0, 2**64 - 1), metavar="SEED", help="of --shuffle")
    parser.add_argument("--no-names", action="store_true", help="leave the names of the samples out")
    parser.add_argument(
        "-s",
        "--shard-size",
        type=parse_size,
        metavar="SIZE",
        help="to .barecat: limit of a shard; or of one of many files, DST as train-%%06d.beton",
    )
    parser.add_argument("--shard-samples", type=whole_number_from(1), metavar="N", help="samples in one of many files")
    parser.add_argument("--verify", action="store_true", help="read DST and compare it with SRC before it gets a name")
    parser.add_argument(
        "--resume", action="store_true", help="write many files one by one; go on where an earlier run was interrupted"
    )
    parser.add_argument("--exact-times", action="store_true", help="to tar: keep fractions of seconds (1 kB a file)")
    parser.add_argument("--skip-broken", action="store_true", help="leave out pictures that cannot be stored")
    add_max_size(parser)
    add_follow_links(parser)
    add_storage(parser)
    add_engine(parser)
    add_dry_run(parser)
    parser.add_argument("-f", "--force", action="store_true", help="replace DST if it exists")
    add_workers(parser)
    add_progress(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Convert, and say what came out."""
    source, out = _check_source(args), _check_out(args)
    start_s = time.perf_counter()

    def print_at_once(line: str) -> None:
        print_left_out([line])

    with broken_named(args):
        result = headrace.convert(
            source,
            out,
            source_kind=args.source_kind,
            target_kind=args.out_kind,
            field=args.field,
            decode=args.decode,
            names=not args.no_names,
            workers=args.workers,
            map=dict(args.map) if args.map else None,
            image_mode=args.image_mode,
            quality=args.quality,
            max_side=args.max_side,
            smart_threshold=args.smart_threshold,
            shuffle_seed=_seed(args),
            limit=args.limit,
            skip_broken=args.skip_broken,
            shard_size=args.shard_size,
            shard_samples=args.shard_samples,
            verify=args.verify,
            resume=args.resume,
            exact_times=args.exact_times,
            max_bytes=args.max_size,
            force=args.force,
            dry_run=args.dry_run,
            engine=args.engine,
            address=args.address,
            on_left_out=print_at_once,
            progress=not (args.quiet or args.json),
            **reading_options(args),
        )
    elapsed_s = time.perf_counter() - start_s
    print_lines("broken" if args.dry_run else "left out, broken", result.broken)
    if args.dry_run:
        print_plan(args, args.out_kind or _format_of(args.out), result)
    elif result.samples is None:
        print_transfer(args, args.out, result, elapsed_s, is_told=True)
    elif args.json:
        facts = {"samples": result.samples, "size_bytes": result.size_bytes, "seconds": elapsed_s}
        left_out = {"skipped": result.skipped, "broken": result.broken}
        print_json({"path": args.out, **facts, "fields": result.fields, **left_out})
    elif not args.quiet:
        rate = f"{format_count(round(result.samples / elapsed_s), 'sample')}/s"
        say(f"{args.out}: {format_count(result.samples, 'sample')}, {format_bytes(result.size_bytes)}, {rate}")
    return 0


def _parse_renaming(text: str) -> tuple[str, str]:
    old, sign, new = text.partition("=")
    if not sign or not old:
        raise argparse.ArgumentTypeError(f"{text!r} must be OLD=NEW, or OLD= to leave a field out")
    return old, new


def _seed(args: argparse.Namespace) -> int | None:
    """The seed of the order, if it is shuffled."""
    if args.shuffle is None:
        if args.seed is not None:
            raise ValueError("--seed is for an order that is shuffled; give --shuffle, too")
        return None
    if args.shuffle == _OF_SEED:
        return int(args.seed or 0)
    if args.seed not in (None, args.shuffle):
        raise ValueError(f"--shuffle {args.shuffle} and --seed {args.seed} are two seeds; give one")
    return int(args.shuffle)


def _format_of(path: str) -> str:
    named = None if os.path.isdir(path) else format_of_name(path)
    return named.name if named is not None else KINDS.get(ending_of(path), "folder")


def _check_source(args: argparse.Namespace) -> str | BinaryIO:
    if args.source != "-":
        path: str = args.source  # a URL knows how its store is reached
        return path
    if args.source_kind is None:
        raise ValueError("what comes from standard input? Say it with --from, for example --from tar.gz")
    if sys.stdin.isatty():
        raise ValueError(
            "standard input is a terminal; send a tar to it, for example: curl URL | headrace convert - ..."
        )
    return sys.stdin.buffer


def _check_out(args: argparse.Namespace) -> str | BinaryIO:
    if args.out != "-":
        out: str = args.out
        return out
    if args.out_kind is None:
        raise ValueError("what should go to standard output? Say it with --to, for example --to tar.gz")
    if args.json:
        raise ValueError("--json prints to standard output, which DST is; leave one of them out")
    if sys.stdout.isatty():
        raise ValueError("standard output is a terminal; send it on, for example: ... --to tar | ssh HOST tar x")
    return sys.stdout.buffer
