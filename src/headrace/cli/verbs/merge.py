"""``headrace merge``: archives, tars, zips and folders into one archive."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from headrace.cli.archives import add_rules, is_archive, new_archive, open_archive, print_transfer, refuse_itself
from headrace.cli.common import (
    add_follow_links,
    add_json,
    add_max_size,
    add_progress,
    parse_size,
    progress_bar,
    reading_options,
)
from headrace.errors import EntryExistsError
from headrace.formats.barecat.edit.handover import made_beside
from headrace.formats.barecat.names import archive_exists
from headrace.formats.open import format_of_name
from headrace.storage import check_local
from headrace.transfer.merge import link_archives, merge_archives

if TYPE_CHECKING:
    import argparse
    from contextlib import AbstractContextManager

    from headrace.formats.barecat import Archive

HELP = "join archives, tars, zips and folders"
DESCRIPTION = """\
Copy several archives (.barecat), tars, zips and folders into one archive; files that have a checksum are checked on the
way. With --symlink nothing is copied: the new archive has links to the shards of the others, which must then stay as
they are, and it is read with --follow-links. With -i and -x only some files are copied: rules are tried in the order in
which they are given, and the first that matches decides."""
EXAMPLES = """\
examples:
  headrace merge a.barecat b.barecat -o all.barecat -s 50G
  headrace merge part-*.tar photos/ -o all.barecat --as-subdirs
  headrace merge a.barecat b.barecat -o all.barecat -x '**/*.tmp'
  headrace merge a.barecat b.barecat -o all.barecat --symlink"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the verb takes."""
    parser.add_argument("paths", metavar="FILE", nargs="+", help=".barecat, tar, zip or folder")
    parser.add_argument("-o", "--out", metavar="OUT", required=True, help="archive to write")
    parser.add_argument("-s", "--shard-size", type=parse_size, metavar="SIZE", help="limit of a shard")
    parser.add_argument("-a", "--append", action="store_true", help="add to OUT, which exists")
    parser.add_argument("-f", "--force", action="store_true", help="replace OUT if it exists")
    parser.add_argument("--symlink", action="store_true", help="link to the shards instead of copying them")
    parser.add_argument("--as-subdirs", action="store_true", help="each into a directory with its name")
    parser.add_argument("--prefix", default="", metavar="DIR", help="everything into this directory")
    parser.add_argument("--ignore-duplicates", action="store_true", help="keep the first of files with the same path")
    add_max_size(parser)
    add_follow_links(parser)
    add_rules(parser)
    add_progress(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Merge, and say how much."""
    check_local(args.out)
    start_s = time.perf_counter()
    is_new = not args.append
    if is_new and archive_exists(args.out) and not args.force:
        raise FileExistsError(f"{args.out} exists; give --force to replace it, or --append to add to it")
    refuse_itself(args.out, args.paths)
    _check_sources(args)
    if args.symlink:
        return _link(args, start_s)
    opened: AbstractContextManager[Archive] = (
        new_archive(args.out, shard_size=args.shard_size, force=args.force)
        if is_new
        else open_archive(args.out, "r+", shard_size=args.shard_size)
    )
    try:
        with opened as target, progress_bar("merging", args, unit="files") as bar:
            result = merge_archives(
                args.paths,
                target,
                as_subdirs=args.as_subdirs,
                prefix=args.prefix,
                rules=args.rules,
                ignore_duplicates=args.ignore_duplicates,
                max_bytes=args.max_size,
                progress=bar,
                **reading_options(args),
            )
    except EntryExistsError as error:
        hint = (
            "keep the first of such files with --ignore-duplicates, or give each source a directory with --as-subdirs"
        )
        raise ValueError(f"{error}; {hint}") from error
    print_transfer(args, args.out, result, time.perf_counter() - start_s)
    return 0


def _check_sources(args: argparse.Namespace) -> None:
    """Say now, not after hours, what cannot be merged."""
    for path in args.paths:
        named = format_of_name(path)
        if named is not None and not named.holds_files and not os.path.isdir(path):
            raise ValueError(
                f"{path} holds samples, and merge joins files; make an archive of it first: "
                f"headrace convert {path} {os.path.splitext(path)[0]}.barecat"
            )
        if not (os.path.exists(path) or is_archive(path)):
            raise FileNotFoundError(f"{path} does not exist")
        if args.symlink and not is_archive(path):
            raise ValueError(f"--symlink links to shards, and {path} has none; leave it out to copy")


def _link(args: argparse.Namespace, start_s: float) -> int:
    if (
        args.append
        or args.as_subdirs
        or args.prefix
        or args.shard_size
        or args.ignore_duplicates
        or args.rules
        or args.max_size
    ):
        raise ValueError("--symlink goes with --out, --force and --follow-links only")
    try:
        with made_beside(args.out) as beside:
            result = link_archives(args.paths, beside, **reading_options(args))
    except EntryExistsError as error:
        raise ValueError(f"{args.out}: {error.name} is in more than one source; merge without --symlink") from error
    print_transfer(args, args.out, result, time.perf_counter() - start_s)
    return 0
