"""``headrace sync``: make a folder or an archive like another, copying only what differs."""

from __future__ import annotations

import os
from dataclasses import fields
from typing import TYPE_CHECKING

from headrace.cli.archives import add_rules, print_left_out
from headrace.cli.common import (
    add_follow_links,
    add_json,
    add_progress,
    parse_size,
    print_json,
    progress_bar,
    say,
)
from headrace.formats.open import format_of_name
from headrace.progress import format_bytes
from headrace.transfer.containers import KINDS, ending_of
from headrace.transfer.sync import SyncOptions, sync

if TYPE_CHECKING:
    import argparse

HELP = "make a folder or archive like another, copying only what differs"
DESCRIPTION = """\
Copy what is new or different from SRC to DST, as rsync does. Both are folders on the disk or ARCHIVE.barecat::DIR, a
directory in an archive; ARCHIVE.barecat alone is its root. SRC with a slash at the end means what is in it, without one
the directory itself; it may also be a file. Files are alike if size and time are. Modes and times are copied, too."""
EXAMPLES = """\
examples:
  headrace sync photos/ photos.barecat                 add what is new or has changed
  headrace sync photos/ photos.barecat --delete -n -v  what would be done to make them alike
  headrace sync photos.barecat::cat/ out               a part, to the disk
  headrace sync a.barecat::new b.barecat::old -c       between archives, by checksum"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the verb takes."""
    parser.add_argument("sources", metavar="SRC", nargs="+", help="folder, file, archive, or ARCHIVE::PATH")
    parser.add_argument("target", metavar="DST", help="folder, archive or ARCHIVE::DIR; made if missing")
    parser.add_argument("--delete", action="store_true", help="remove from DST what SRC does not have")
    parser.add_argument("-n", "--dry-run", action="store_true", help="change nothing, only say what would be done")
    parser.add_argument("-v", "--verbose", action="store_true", help="name everything that is copied or removed")
    parser.add_argument("-c", "--checksum", action="store_true", help="compare contents, not size and time")
    parser.add_argument("--size-only", action="store_true", help="compare sizes only")
    parser.add_argument("-u", "--update", action="store_true", help="leave alone what is newer in DST")
    parser.add_argument("--ignore-existing", action="store_true", help="leave alone whatever DST has")
    parser.add_argument("--existing", action="store_true", help="add nothing new")
    parser.add_argument("--min-size", type=parse_size, metavar="SIZE", help="leave out smaller files")
    parser.add_argument("--max-size", type=parse_size, metavar="SIZE", help="leave out larger files")
    add_follow_links(parser)
    add_rules(parser)
    add_progress(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Copy, and say how much."""
    _check_target(args)
    options = SyncOptions(**{one.name: getattr(args, one.name) for one in fields(SyncOptions)})

    def tell(action: str, name: str) -> None:
        if args.verbose and not args.json:
            say(action, name)

    with progress_bar("syncing", args, unit="files") as bar:
        report = sync(args.sources, args.target, options, on_action=tell, progress=None if args.verbose else bar)
    print_left_out(report.skipped)
    facts = {"copied": report.copied, "removed": report.removed, "unchanged": report.unchanged}
    if args.json:
        print_json({"path": args.target, **facts, "size_bytes": report.size_bytes, "dry_run": args.dry_run})
    elif not args.quiet:
        copied = f"{len(report.copied):,} copied ({format_bytes(report.size_bytes)})"
        note = " (nothing was done)" if args.dry_run else ""
        say(f"{args.target}: {copied}, {len(report.removed):,} removed, {report.unchanged:,} alike{note}")
    return 0


def _check_target(args: argparse.Namespace) -> None:
    """A folder with the ending of a file would only mislead."""
    target = args.target.rstrip("/")
    named = format_of_name(target)
    is_file = (named is not None and named.open_archive is None) or ending_of(target) in KINDS
    if is_file and not os.path.isdir(target):
        source = args.sources[0] if len(args.sources) == 1 else "SRC"
        verb = f"headrace convert {source} {target}"
        raise ValueError(f"sync copies into folders and archives, and {target} is neither; make it with: {verb}")
