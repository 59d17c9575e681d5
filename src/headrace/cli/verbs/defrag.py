"""``headrace defrag``: gaps out of the shards of an archive."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.cli.archives import open_archive
from headrace.cli.common import add_json, add_progress, number_from, print_json, progress_bar, say
from headrace.formats.barecat.edit.maintenance import defragment, find_gaps
from headrace.progress import format_bytes, format_count

if TYPE_CHECKING:
    import argparse

HELP = "take the gaps out of an archive"
DESCRIPTION = """\
Move the files of a .barecat together, so that the space of removed and replaced files is free again. It can be
interrupted at any point. --quick only moves files from the end into gaps where they fit."""
EXAMPLES = """\
examples:
  headrace defrag photos.barecat -n
  headrace defrag photos.barecat --quick --max-seconds 60"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the verb takes."""
    parser.add_argument("path", metavar="FILE", help="an archive (.barecat)")
    parser.add_argument("--quick", action="store_true", help="fill gaps from the end only")
    parser.add_argument("--smart", action="store_true", help="move stretches of files as a whole")
    parser.add_argument(
        "--max-seconds", type=number_from(0, 1e9), metavar="S", help="stop after this time; what was done counts"
    )
    parser.add_argument("-n", "--dry-run", action="store_true", help="only say how large the gaps are")
    add_progress(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Defragment, or describe the gaps."""
    if args.quick and args.smart:
        raise ValueError("give --quick or --smart, not both")
    if args.dry_run:
        with open_archive(args.path) as archive:
            gaps = find_gaps(archive)
        size_bytes = sum(size for _, _, size in gaps)
        said = f"{format_count(len(gaps), 'gap')}, {format_bytes(size_bytes)}"
        _print(args, {"gaps": len(gaps), "gap_bytes": size_bytes}, said)
        return 0
    with open_archive(args.path, "r+") as archive, progress_bar("defragmenting", args, unit="files") as bar:
        method = "quick" if args.quick else "smart" if args.smart else "full"
        freed = defragment(archive, method, max_seconds=args.max_seconds, progress=bar)  # type: ignore[arg-type]
    _print(args, {"freed_bytes": freed}, "" if args.quiet else f"{format_bytes(freed)} freed")
    return 0


def _print(args: argparse.Namespace, facts: dict[str, int], said: str) -> None:
    if args.json:
        print_json({"path": args.path, **facts})
    elif said:
        say(f"{args.path}: {said}")
