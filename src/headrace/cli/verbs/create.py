"""``headrace create``: a folder into one file."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

import headrace
from headrace.cli.archives import broken_named, create_archive, print_report
from headrace.cli.common import (
    add_dry_run,
    add_json,
    add_progress,
    add_storage_option,
    add_workers,
    number_from,
    parse_color,
    parse_size,
    progress_bar,
    whole_number_from,
)
from headrace.fields import Image
from headrace.formats.open import all_formats, find_format, format_of_name
from headrace.storage import is_remote
from headrace.transfer.containers import KINDS, STREAM_KINDS

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable

HELP = "pack a folder into one file"
DESCRIPTION = """\
Pack all pictures below DIR into OUT. The first directory below DIR is the class, the relative path becomes the
sample's name. JPEG files that need no shrinking are stored byte for byte; every sample gets a checksum. Into an
.ffr or a .barecat go all files below DIR, pictures or not, byte for byte and with their paths; options about pictures
and pages do not apply there. What is left out is counted and named on standard error. Pictures that cannot be stored
are all named, and nothing is written then, unless --skip-broken leaves them out. OUT appears when it is complete, or
not at all."""
EXAMPLES = """\
examples:
  headrace create train.beton photos/train
  headrace create train.beton photos/train --max-side 500 --quality 90 -j 8
  headrace create small.beton photos/train --mode raw --max-side 256
  headrace create train.beton photos/train --dry-run        what would be written?
  headrace create train.beton photos/train --skip-broken
  headrace create photos.ffr photos
  headrace create train.beton photos/train --shuffle 0 --page-size 16M --force
  headrace create photos.barecat photos -s 50G --exclude '*.tmp'
  headrace create photos.barecat -C photos .
  find photos -name '*.jpg' -print0 | headrace create photos.barecat -0 -T -"""


STREAM_ENDINGS = tuple(ending for ending, kind in KINDS.items() if kind in STREAM_KINDS)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the verb takes."""
    parser.add_argument("out", metavar="OUT", help="file to write: train.beton, train.ffr or train.barecat")
    parser.add_argument(
        "folders",
        metavar="DIR",
        nargs="*",
        help="folder of pictures; for .ffr one of any files, for .barecat any files and folders",
    )
    parser.add_argument(
        "--mode",
        choices=["jpg", "raw", "smart", "proportion"],
        default="jpg",
        help="how pictures are stored (default: jpg)",
    )
    parser.add_argument(
        "--max-side", type=whole_number_from(1, 65535), metavar="PIXELS", help="shrink pictures with a longer side"
    )
    parser.add_argument(
        "--quality",
        type=whole_number_from(1, 100),
        default=90,
        help="JPEG quality where encoding is needed (default: 90)",
    )
    parser.add_argument(
        "--smart-threshold", type=parse_size, metavar="SIZE", help="mode smart: jpg above this raw size"
    )
    parser.add_argument(
        "--compress-probability", type=number_from(0, 1), default=0.5, metavar="P", help="mode proportion: share of jpg"
    )
    parser.add_argument(
        "--background", type=parse_color, metavar="COLOUR", help="behind transparent pictures: white or R,G,B"
    )
    parser.add_argument("--page-size", type=parse_size, metavar="SIZE", help="2M to 2G, a power of two (default: auto)")
    parser.add_argument(
        "--shuffle",
        type=whole_number_from(0, 2**64 - 1),
        metavar="SEED",
        help="store in an order shuffled with this seed",
    )
    parser.add_argument("--no-annex", action="store_true", help="no checksums, names, classes and tile indices")
    parser.add_argument(
        "--no-jpeg-index", action="store_true", help="no tile indices of the JPEGs (faster to pack, slower to load)"
    )
    parser.add_argument("-s", "--shard-size", type=parse_size, metavar="SIZE", help=".barecat: limit of a shard")
    parser.add_argument(
        "-T", "--files-from", metavar="FILE", help=".barecat: pack the paths listed in FILE (- is stdin)"
    )
    parser.add_argument(
        "-0", "--null", action="store_true", help="the list of -T is separated by NUL, as of find -print0"
    )
    parser.add_argument(
        "-C", "--directory", metavar="DIR", default="", help=".barecat: paths begin in DIR, which is no part of names"
    )
    parser.add_argument("--exclude", action="append", metavar="PATTERN", help=".barecat: leave out what matches")
    parser.add_argument("--skip-broken", action="store_true", help="leave out pictures that cannot be stored")
    add_storage_option(parser)
    add_dry_run(parser)
    parser.add_argument("-f", "--force", action="store_true", help="replace OUT if it exists")
    add_workers(parser)
    add_progress(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Pack, and say what came out."""
    if args.out.lower().endswith(STREAM_ENDINGS):
        source = args.folders[0] if len(args.folders) == 1 else "DIR"
        made = [one.suffixes[0] for one in all_formats() if one.create is not None]
        known = ", ".join(ending for ending in made if ending not in STREAM_ENDINGS)
        raise ValueError(f"create makes {known}; for a tar or zip: headrace convert {source} {args.out}")
    _check_order(args)
    target = find_format(args.out, must_exist=False)
    if target.new_archive is not None:
        _refuse_picture_options(args)
        return create_archive(args)
    _refuse_archive_options(args)
    if target.pack is not None:
        _refuse_picture_options(args, _HOW_STORED)
    (folder,) = args.folders
    if not is_remote(args.out) and target.exists(args.out) and not args.force:
        raise FileExistsError(f"{args.out} exists; give --force to replace it")
    given: dict[str, Any] = {"page_size": args.page_size}
    given |= {"annex": False} if args.no_annex else {}
    given |= {"jpeg_index": False} if args.no_jpeg_index else {}
    start_s = time.perf_counter()
    with broken_named(args), progress_bar("packing", args) as bar:
        result = headrace.pack(
            args.out,
            folder,
            image=_image(args),
            workers=args.workers,
            shuffle_seed=args.shuffle,
            skip_broken=args.skip_broken,
            dry_run=args.dry_run,
            force=args.force,
            progress=bar or False,
            **given,
        )
    if result.samples is None and is_remote(args.out):
        result.samples = result.files
    elif result.samples is None and not args.dry_run:  # files, as they are
        result.samples, result.size_bytes = len(headrace.open(args.out)), target.size_bytes(args.out)
    print_report(args, target.name, result, time.perf_counter() - start_s)
    return 0


def _image(args: argparse.Namespace) -> Image:
    return Image(
        mode=args.mode,
        max_side=args.max_side,
        quality=args.quality,
        smart_threshold=args.smart_threshold,
        compress_probability=args.compress_probability,
        background=args.background,
    )


def _check_order(args: argparse.Namespace) -> None:
    others = [path for path in args.folders if format_of_name(path) is not None and not os.path.exists(path)]
    if format_of_name(args.out) is None and os.path.exists(args.out) and others:
        raise ValueError(f"what is written comes first: headrace create {others[0]} {args.out}")


_PICTURE_OPTIONS = {
    "mode": "jpg",
    "max_side": None,
    "quality": 90,
    "smart_threshold": None,
    "compress_probability": 0.5,
    "background": None,
    "page_size": None,
    "shuffle": None,
    "no_annex": False,
    "no_jpeg_index": False,
    "skip_broken": False,
}


_HOW_STORED = ("mode", "max_side", "quality", "smart_threshold", "compress_probability", "background")


def _refuse_picture_options(args: argparse.Namespace, names: Iterable[str] = tuple(_PICTURE_OPTIONS)) -> None:
    given = [name for name in names if getattr(args, name) != _PICTURE_OPTIONS[name]]
    if given:
        option = f"--{given[0].replace('_', '-')}"
        raise ValueError(f"{option} is for .beton, and {args.out} holds files as they are; leave it out")


def _refuse_archive_options(args: argparse.Namespace) -> None:
    if args.shard_size or args.files_from or args.null or args.exclude or args.directory:
        raise ValueError("-s, -T, -0, -C and --exclude are for archives; name OUT with the ending .barecat")
    if len(args.folders) != 1:
        raise ValueError(f"one folder of pictures is needed, got {len(args.folders)}")
