"""``headrace convert``: a dataset or archive of one format into another."""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING, Any

import headrace
from headrace.cli.archives import is_archive, print_left_out, print_transfer
from headrace.cli.common import (
    add_json,
    add_max_size,
    add_progress,
    add_workers,
    parse_size,
    print_json,
    progress_bar,
)
from headrace.formats.barecat import Archive
from headrace.formats.open import find_format
from headrace.progress import format_bytes
from headrace.transfer.carrying import files_to_samples, samples_to_files
from headrace.transfer.containers import STREAM_KINDS, kind_of
from headrace.transfer.convert import convert as convert_files
from headrace.transfer.samples import convert

if TYPE_CHECKING:
    import argparse
    from typing import BinaryIO

    from headrace.types import Progress

NAME = "convert"
HELP = "one format into another: .beton, .ffr, .barecat, tar, zip, folder"
DESCRIPTION = """\
Write SRC into DST, whose ending decides the format. Between .barecat, .tar (also .gz, .bz2, .xz, .zst), .zip and
folders go files with their paths, modes and times, one after the other: nothing is unpacked on the way. Names that
lead out of DST are refused, links inside a tar become files, devices and pipes are left out and named. Between
.beton, .ffr and .barecat go samples: JPEG pictures and bytes are copied as they are stored. A packed folder (.ffr) of
pictures becomes a .beton with an image field; samples with names become a packed folder in an .ffr, and files in a
.barecat. Between .beton or .ffr and tar, zip or a folder, an archive stands beside DST for a while and takes as much
space as the samples. SRC may be -, a tar on standard input (say --from), and DST may be -, a tar or zip on standard
output (say --to). DST appears when it is complete, or not at all."""
EXAMPLES = """\
examples:
  headrace convert photos.tar.gz photos.barecat -s 50G
  headrace convert photos.barecat photos.zip
  headrace convert photos.barecat photos.beton
  headrace convert photos.tar.gz photos.beton
  headrace convert photos.beton photos.zip
  headrace convert photos.ffr photos.beton
  headrace convert train.beton train.ffr --field image
  headrace convert parts/ train.beton --decode json
  headrace convert photos.ffr photos.beton --decode bytes     every file byte for byte, pictures or not
  curl URL | headrace convert - photos.barecat --from tar.gz
  headrace convert photos.barecat - --to tar.zst | ssh HOST 'tar -x --zstd'"""
_DATASETS = (".beton", ".ffr")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the verb takes."""
    parser.add_argument("source", metavar="SRC", help="a dataset, archive, tar, zip or folder; - is standard input")
    parser.add_argument("out", metavar="DST", help="what to write, such as train.beton or x.zip; - is standard output")
    parser.add_argument(
        "--from", dest="source_kind", choices=STREAM_KINDS, help="what SRC is, where its name does not say"
    )
    parser.add_argument("--to", dest="out_kind", choices=STREAM_KINDS, help="what DST is, where its name does not say")
    parser.add_argument("--field", metavar="NAME", help="only this field; needed where DST can hold one")
    parser.add_argument(
        "--decode",
        choices=["bytes", "json", "text", "image"],
        help="what the samples of an .ffr are (default: image where all names say so, else bytes)",
    )
    parser.add_argument("--shuffle", type=int, metavar="SEED", help="store in an order shuffled with this seed")
    parser.add_argument("--no-names", action="store_true", help="leave the names of the samples out")
    parser.add_argument("-s", "--shard-size", type=parse_size, metavar="SIZE", help="to .barecat: limit of a shard")
    add_max_size(parser)
    parser.add_argument("-f", "--force", action="store_true", help="replace DST if it exists")
    add_workers(parser)
    add_progress(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Convert, and say what came out."""
    source, out = _check_source(args), _check_out(args)
    is_to_dataset = args.out_kind is None and args.out.lower().endswith(_DATASETS)
    is_from_dataset = args.source_kind is None and args.source.lower().endswith(_DATASETS)
    is_from_dataset = is_from_dataset and not os.path.isdir(args.source)
    if not (is_to_dataset or is_from_dataset):
        return _carry_files(args, source, out)
    from_files = not is_from_dataset and not _holds_samples(args.source, args.source_kind)
    to_files = not is_to_dataset and (args.out_kind or kind_of(args.out)) != "barecat"
    if args.max_size is not None and not from_files:
        raise ValueError("--max-size is for what is read from tar and zip")
    if args.shard_size is not None and (is_to_dataset or to_files):
        raise ValueError("--shard-size is for what is written to a .barecat")
    start_s = time.perf_counter()
    with progress_bar("converting", args) as bar:
        if to_files:
            result = samples_to_files(
                args.source, out, target_kind=args.out_kind, force=args.force, progress=bar, **_sample_options(args)
            )
        elif from_files:
            result = files_to_samples(
                source,
                args.out,
                source_kind=args.source_kind,
                max_bytes=args.max_size,
                progress=bar,
                **_sample_options(args),
            )
        else:
            _write_samples(args, bar)
    elapsed_s = time.perf_counter() - start_s
    if to_files:
        print_transfer(args, args.out, result, elapsed_s)
    else:
        print_left_out(result.skipped if from_files else ())
        _print_samples(args, elapsed_s)
    return 0


def _check_source(args: argparse.Namespace) -> str | BinaryIO:
    if args.source != "-":
        if not (os.path.exists(args.source) or is_archive(args.source)):
            raise FileNotFoundError(f"{args.source} does not exist")
        return str(args.source)
    if args.source_kind is None:
        raise ValueError("what comes from standard input? Say it with --from, for example --from tar.gz")
    if sys.stdin.isatty():
        raise ValueError(
            "standard input is a terminal; send a tar to it, for example: curl URL | headrace convert - ..."
        )
    return sys.stdin.buffer


def _check_out(args: argparse.Namespace) -> str | BinaryIO:
    if args.out != "-":
        if os.path.exists(args.out) and not os.path.isdir(args.out) and not args.force:
            raise FileExistsError(f"{args.out} exists; give --force to replace it")
        return str(args.out)
    if args.out_kind is None:
        raise ValueError("what should go to standard output? Say it with --to, for example --to tar.gz")
    if args.json:
        raise ValueError("--json prints to standard output, which DST is; leave one of them out")
    if sys.stdout.isatty():
        raise ValueError("standard output is a terminal; send it on, for example: ... --to tar | ssh HOST tar x")
    return sys.stdout.buffer


def _holds_samples(path: str, kind: str | None) -> bool:
    """Samples can be read from it in any order."""
    return kind is None and path != "-" and kind_of(path) in ("barecat", "folder")


def _carry_files(args: argparse.Namespace, source: str | BinaryIO, out: str | BinaryIO) -> int:
    for option in ("field", "decode", "shuffle", "no_names", "workers"):
        if getattr(args, option):
            raise ValueError(f"--{option.replace('_', '-')} is for samples (.beton, .ffr), and these are files")
    if args.shard_size is not None and (args.out_kind or kind_of(args.out)) != "barecat":
        raise ValueError("--shard-size is for what is written to a .barecat")
    start_s = time.perf_counter()
    with progress_bar("converting", args, unit="files") as bar:
        result = convert_files(
            source,
            out,
            source_kind=args.source_kind,
            target_kind=args.out_kind,
            shard_size=args.shard_size,
            max_bytes=args.max_size,
            force=args.force,
            progress=bar,
        )
    print_transfer(args, args.out, result, time.perf_counter() - start_s)
    return 0


def _sample_options(args: argparse.Namespace) -> dict[str, Any]:
    return {
        "field": args.field,
        "decode": args.decode,
        "names": not args.no_names,
        "workers": args.workers,
        "shuffle_seed": args.shuffle,
    }


def _write_samples(args: argparse.Namespace, bar: Progress | None) -> None:
    """From a dataset, archive or folder into a dataset or archive."""
    chosen = args.field or args.decode or args.no_names
    if args.out.lower().endswith(".ffr") and find_format(args.source).name == "folder" and not chosen:
        headrace.pack(args.out, args.source, shuffle_seed=args.shuffle, progress=bar or False)  # all files, as they are
        return
    options = {} if args.shard_size is None else {"shard_size": args.shard_size}
    convert(args.source, args.out, progress=bar or False, **_sample_options(args), **options)


def _print_samples(args: argparse.Namespace, elapsed_s: float) -> None:
    samples, size_bytes = len(headrace.open(args.out)), _size_bytes(args.out)
    if args.json:
        print_json({"path": args.out, "samples": samples, "size_bytes": size_bytes, "seconds": elapsed_s})
    elif not args.quiet:
        print(f"{args.out}: {samples:,} samples, {format_bytes(size_bytes)}, {samples / elapsed_s:,.0f} samples/s")


def _size_bytes(path: str) -> int:
    if is_archive(path):
        with Archive(path) as archive:
            return archive.total_size
    return os.path.getsize(path)
