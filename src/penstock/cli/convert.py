"""``penstock convert``: a dataset or archive of one format into another."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import penstock
from penstock.cli.archives import is_archive, print_transfer
from penstock.cli.common import add_json, add_progress, add_workers, parse_size, print_json, progress_bar
from penstock.formats import barecat, convert
from penstock.formats.barecat.containers import KINDS, kind_of
from penstock.progress import format_bytes

if TYPE_CHECKING:
    import argparse

NAME = "convert"
HELP = "one format into another: .beton, .ffr, .barecat, tar, zip, folder"
DESCRIPTION = """\
Write SRC into DST, whose ending decides the format. Between .barecat, .tar (also .gz, .bz2, .xz, .zst), .zip and
folders go files with their paths, modes and times, one after the other: nothing is unpacked on the way. Names that
lead out of DST are refused, links inside a tar become files, devices and pipes are left out and named. Between
.beton, .ffr and .barecat go samples: JPEG pictures and bytes are copied as they are stored. A packed folder (.ffr) of
pictures becomes a .beton with an image field; samples with names become a packed folder in an .ffr, and files in a
.barecat. DST appears when it is complete, or not at all."""
EXAMPLES = """\
examples:
  penstock convert photos.tar.gz photos.barecat -s 50G
  penstock convert photos.barecat photos.zip
  penstock convert photos.barecat photos.beton
  penstock convert photos.ffr photos.beton
  penstock convert train.beton train.ffr --field image
  penstock convert parts/ train.beton --decode json
  penstock convert photos.ffr photos.beton --decode bytes     every file byte for byte, pictures or not"""
_DATASETS = (".beton", ".ffr")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the verb takes."""
    parser.add_argument("source", metavar="SRC", help="a dataset, archive, tar, zip or folder")
    parser.add_argument("out", metavar="DST", help="what to write, for example train.beton, train.barecat or train.zip")
    parser.add_argument("--field", metavar="NAME", help="only this field; needed where DST can hold one")
    parser.add_argument(
        "--decode",
        choices=["bytes", "json", "text", "image"],
        help="what the samples of an .ffr are (default: image where all names say so, else bytes)",
    )
    parser.add_argument("--shuffle", type=int, metavar="SEED", help="store in an order shuffled with this seed")
    parser.add_argument("--no-names", action="store_true", help="leave the names of the samples out")
    parser.add_argument("-s", "--shard-size", type=parse_size, metavar="SIZE", help="to .barecat: limit of a shard")
    parser.add_argument(
        "--max-size",
        type=parse_size,
        metavar="SIZE",
        help="from tar and zip: refuse more content than this (default: 1 GiB, or 1100 times the file)",
    )
    parser.add_argument("-f", "--force", action="store_true", help="replace DST if it exists")
    add_workers(parser)
    add_progress(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Convert, and say what came out."""
    if os.path.exists(args.out) and not os.path.isdir(args.out) and not args.force:
        raise FileExistsError(f"{args.out} exists; give --force to replace it")
    is_to_dataset = args.out.lower().endswith(_DATASETS)
    is_from_dataset = args.source.lower().endswith(_DATASETS) and not os.path.isdir(args.source)
    if not (is_to_dataset or is_from_dataset):
        return _carry_files(args)
    _check_pair(args, is_to_dataset, is_from_dataset)
    return _write_samples(args)


def _check_pair(args: argparse.Namespace, is_to_dataset: bool, is_from_dataset: bool) -> None:
    """Samples go between datasets and archives; say what to do for everything else."""
    if args.max_size is not None:
        raise ValueError("--max-size is for what is read from tar and zip")
    if is_to_dataset and args.shard_size is not None:
        raise ValueError("--shard-size is for what is written to a .barecat")
    if is_to_dataset and not is_from_dataset and not os.path.isdir(args.source):
        if _kind(args.source) not in (None, "barecat"):
            raise ValueError(
                f"{args.source} holds files, not samples; make an archive first: "
                f"penstock convert {args.source} {_stem(args.source)}.barecat"
            )
    elif is_from_dataset and not is_to_dataset and _kind(args.out) != "barecat":
        raise ValueError(
            f"{args.source} holds samples; write them to files with: penstock extract {args.source} -C DIR, "
            f"or make an archive: penstock convert {args.source} {_stem(args.source)}.barecat"
        )


def _kind(path: str) -> str | None:
    return next((KINDS[ending] for ending in sorted(KINDS, key=len) if path.lower().endswith(ending)), None)


def _stem(path: str) -> str:
    return os.path.basename(path).partition(".")[0]


def _carry_files(args: argparse.Namespace) -> int:
    for option in ("field", "decode", "shuffle", "no_names", "workers"):
        if getattr(args, option):
            raise ValueError(f"--{option.replace('_', '-')} is for samples (.beton, .ffr), and these are files")
    if args.shard_size is not None and kind_of(args.out) != "barecat":
        raise ValueError("--shard-size is for what is written to a .barecat")
    if not (os.path.exists(args.source) or is_archive(args.source)):
        raise FileNotFoundError(f"{args.source} does not exist")
    start_s = time.perf_counter()
    with progress_bar("converting", args, unit="files") as bar:
        result = barecat.convert(
            args.source,
            args.out,
            shard_size=args.shard_size,
            max_bytes=args.max_size,
            force=args.force,
            progress=bar,
        )
    print_transfer(args, args.out, result, time.perf_counter() - start_s)
    return 0


def _write_samples(args: argparse.Namespace) -> int:
    start_s = time.perf_counter()
    options = {} if args.shard_size is None else {"shard_size": args.shard_size}
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
            **options,
        )
    elapsed_s = time.perf_counter() - start_s
    samples, size_bytes = len(penstock.open(args.out)), _size_bytes(args.out)
    if args.json:
        print_json({"path": args.out, "samples": samples, "size_bytes": size_bytes, "seconds": elapsed_s})
    elif not args.quiet:
        print(f"{args.out}: {samples:,} samples, {format_bytes(size_bytes)}, {samples / elapsed_s:,.0f} samples/s")
    return 0


def _size_bytes(path: str) -> int:
    if is_archive(path):
        with barecat.Archive(path) as archive:
            return archive.total_size
    return os.path.getsize(path)
