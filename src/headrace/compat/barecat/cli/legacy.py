"""The separate commands of older versions; ``barecat`` has them all."""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from typing import TYPE_CHECKING

from headrace.compat.barecat.cli import impl
from headrace.compat.barecat.cli.main import check_archive
from headrace.compat.barecat.cli.main import main as run_command
from headrace.compat.barecat.cli.reporting import fail, report_errors
from headrace.compat.barecat.core.barecat import Barecat
from headrace.compat.barecat.util.misc import exists, parse_size

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = [
    "archive2barecat",
    "barecat2archive",
    "create",
    "create_recursive",
    "defrag",
    "extract",
    "extract_single",
    "index_to_csv",
    "merge",
    "merge_symlink",
    "print_ncdu_json",
    "verify_integrity",
]


def _parser(name: str, instead: str, about: str) -> argparse.ArgumentParser:
    warnings.warn(f"{name} is deprecated, use 'barecat {instead}' instead", DeprecationWarning, stacklevel=3)
    return argparse.ArgumentParser(prog=name, description=about)


def _add_packing(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--file", required=True, help="path of the archive")
    parser.add_argument("--workers", type=int, help="number of threads")
    parser.add_argument("--shard-size-limit", help="limit of a shard, such as 1G")
    parser.add_argument("--overwrite", action="store_true", help="replace an archive that exists")


@report_errors()
def create() -> None:
    """``barecat-create``: paths from standard input."""
    parser = _parser("barecat-create", "create", "Pack files whose paths come from standard input.")
    _add_packing(parser)
    parser.add_argument("--null", action="store_true", help="paths end with a NUL, as find -print0 writes them")
    args = parser.parse_args()
    stream = sys.stdin.buffer
    names = impl.iterate_zero_terminated(stream) if args.null else (os.fsdecode(line.rstrip(b"\n")) for line in stream)
    pairs = ((name, name) for name in names if name)
    if exists(args.file) and not args.overwrite:
        fail(f"Archive '{args.file}' already exists. Use --overwrite to replace it.")
    impl.create(pairs, args.file, parse_size(args.shard_size_limit), args.overwrite, workers=args.workers)


@report_errors()
def create_recursive() -> None:
    """``barecat-create-recursive``: what is in folders, without their names."""
    parser = _parser("barecat-create-recursive", "create", "Pack what is in folders.")
    _add_packing(parser)
    parser.add_argument("paths", nargs="+", help="folders")
    parser.add_argument("--strip-root", action="store_true", default=True, help="leave out the names of the folders")
    parser.add_argument("--physical-order", action="store_true", help="in the order in which files lie on the disk")
    args = parser.parse_args()
    pairs: list[tuple[str, str]] | Iterator[tuple[str, str]] = _inside(args.paths)
    if args.physical_order:
        from headrace.compat.barecat.util.physical_order import get_physical_offset

        pairs = sorted(pairs, key=lambda pair: get_physical_offset(pair[0]))
    impl.create(pairs, args.file, parse_size(args.shard_size_limit), args.overwrite, workers=args.workers)


def _inside(roots: list[str]) -> Iterator[tuple[str, str]]:
    for root in roots:
        for folder, dirs, files in os.walk(root):
            for name in (*files, *dirs):
                path = os.path.join(folder, name)
                yield path, os.path.relpath(path, root)


@report_errors()
def extract() -> None:
    """``barecat-extract``."""
    parser = _parser("barecat-extract", "extract", "Write all files of an archive to a folder.")
    parser.add_argument("--file", required=True, help="path of the archive")
    parser.add_argument("--target-directory", required=True, help="the folder")
    args = parser.parse_args()
    run_command(["extract", args.file, "-C", args.target_directory])


@report_errors()
def extract_single() -> None:
    """``barecat-extract-single``."""
    parser = _parser("barecat-extract-single", "cat", "Write one file to standard output.")
    parser.add_argument("--barecat-file", required=True, help="path of the archive")
    parser.add_argument("--path", required=True, help="path in the archive")
    args = parser.parse_args()
    run_command(["cat", args.barecat_file, args.path])


@report_errors()
def index_to_csv() -> None:
    """``barecat-index-to-csv``."""
    parser = _parser("barecat-index-to-csv", "index-to-csv", "The index as CSV.")
    parser.add_argument("file", help="path of the index")
    run_command(["index-to-csv", parser.parse_args().file])


def _add_merging(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("input_paths", metavar="N", nargs="+", help="archives")
    parser.add_argument("--output", required=True, help="the archive they go into")
    parser.add_argument("--overwrite", action="store_true", help="replace it if it exists")
    parser.add_argument("--ignore-duplicates", action="store_true", help="leave out files that are there already")


@report_errors()
def merge() -> None:
    """``barecat-merge``."""
    parser = _parser("barecat-merge", "merge", "Copy archives into one.")
    _add_merging(parser)
    parser.add_argument("--shard-size-limit", help="limit of a shard, such as 1G")
    args = parser.parse_args()
    limit = parse_size(args.shard_size_limit)
    impl.merge(args.input_paths, args.output, limit, args.overwrite, args.ignore_duplicates)


@report_errors()
def merge_symlink() -> None:
    """``barecat-merge-symlink``."""
    parser = _parser("barecat-merge-symlink", "merge --symlink", "Link to the shards of archives.")
    _add_merging(parser)
    args = parser.parse_args()
    impl.merge_symlink(args.input_paths, args.output, args.overwrite, args.ignore_duplicates)


@report_errors()
def verify_integrity() -> None:
    """``barecat-verify``."""
    parser = _parser("barecat-verify", "verify", "Check an archive.")
    parser.add_argument("file", help="path of the archive")
    parser.add_argument("--quick", action="store_true", help="of the bytes, only those of the last file")
    args = parser.parse_args()
    with Barecat(args.file) as bc:
        check_archive(bc, quick=args.quick)


@report_errors()
def defrag() -> None:
    """``barecat-defrag``."""
    parser = _parser("barecat-defrag", "defrag", "Take gaps out of the shards.")
    parser.add_argument("file", help="path of the archive")
    parser.add_argument("--quick", action="store_true", help="only move files from the end into gaps")
    args = parser.parse_args()
    run_command(["defrag", args.file, *(["--quick"] if args.quick else [])])


@report_errors()
def archive2barecat() -> None:
    """``archive2barecat``."""
    parser = _parser("archive2barecat", "convert", "A tar or zip as an archive.")
    parser.add_argument("archive_file", help="the tar or zip")
    parser.add_argument("barecat_file", help="the archive")
    parser.add_argument("--shard-size-limit", help="limit of a shard, such as 1G")
    parser.add_argument("--overwrite", action="store_true", help="replace an archive that exists")
    args = parser.parse_args()
    impl.archive2barecat(args.archive_file, args.barecat_file, parse_size(args.shard_size_limit), args.overwrite)


@report_errors()
def barecat2archive() -> None:
    """``barecat2archive``."""
    parser = _parser("barecat2archive", "convert", "An archive as a tar or zip.")
    parser.add_argument("barecat_file", help="the archive")
    parser.add_argument("archive_file", help="the tar or zip")
    args = parser.parse_args()
    impl.barecat2archive(args.barecat_file, args.archive_file)


@report_errors()
def print_ncdu_json() -> None:
    """``barecat-to-ncdu-json``."""
    parser = _parser("barecat-to-ncdu-json", "to-ncdu-json", "Sizes for ncdu.")
    parser.add_argument("file", help="path of the index")
    run_command(["to-ncdu-json", parser.parse_args().file])
