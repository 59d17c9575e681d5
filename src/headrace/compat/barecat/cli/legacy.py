"""The separate commands of older versions; ``barecat`` has them all."""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from typing import TYPE_CHECKING

from headrace.compat.barecat.cli import impl
from headrace.compat.barecat.cli.main import check_archive, fail, report_errors
from headrace.compat.barecat.cli.main import main as run_command
from headrace.compat.barecat.cli.packing import by_physical_order, read_names
from headrace.compat.barecat.cli.parsing import argument, flag
from headrace.compat.barecat.core.barecat import Barecat
from headrace.compat.barecat.maintenance.upgrade_database import upgrade
from headrace.compat.barecat.util.misc import exists, parse_size

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from headrace.compat.barecat.cli.parsing import Argument

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
    "upgrade_database",
    "verify_integrity",
]

_FILE = argument("file", help="path of the archive")
_SHARD_SIZE = argument("--shard-size-limit", help="limit of a shard, such as 1G")
_OVERWRITE = flag("--overwrite", help="replace an archive that exists")
_QUICK = flag("--quick", help="only a part, in less time")
_PACKING = (
    argument("--file", required=True, help="path of the archive"),
    argument("--workers", type=int, help="number of threads"),
    _SHARD_SIZE,
    _OVERWRITE,
)
_MERGING = (
    argument("input_paths", metavar="N", nargs="+", help="archives"),
    argument("--output", required=True, help="the archive they go into"),
    _OVERWRITE,
    flag("--ignore-duplicates", help="leave out files that are there already"),
)


def _command(
    name: str, instead: str, about: str, run: Callable[[argparse.Namespace], None], *arguments: Argument
) -> Callable[[], None]:
    """A command of its own that says what to use instead."""

    def command() -> None:
        warnings.warn(f"{name} is deprecated, use 'barecat {instead}' instead", DeprecationWarning, stacklevel=2)
        parser = argparse.ArgumentParser(prog=name, description=about)
        for names, options in arguments:
            parser.add_argument(*names, **options)
        with report_errors():
            run(parser.parse_args())

    return command


def _create(args: argparse.Namespace) -> None:
    pairs = ((name, name) for name in read_names(sys.stdin.buffer, is_null=args.null))
    if exists(args.file) and not args.overwrite:
        fail(f"Archive '{args.file}' already exists. Use --overwrite to replace it.")
    impl.create(pairs, args.file, parse_size(args.shard_size_limit), args.overwrite, workers=args.workers)


def _create_recursive(args: argparse.Namespace) -> None:
    pairs = by_physical_order(_inside(args.paths)) if args.physical_order else _inside(args.paths)
    impl.create(pairs, args.file, parse_size(args.shard_size_limit), args.overwrite, workers=args.workers)


def _inside(roots: list[str]) -> Iterator[tuple[str, str]]:
    for root in roots:
        for folder, dirs, files in os.walk(root):
            for name in (*files, *dirs):
                path = os.path.join(folder, name)
                yield path, os.path.relpath(path, root)


def _merge(args: argparse.Namespace) -> None:
    limit = parse_size(args.shard_size_limit)
    impl.merge(args.input_paths, args.output, limit, args.overwrite, args.ignore_duplicates)


def _verify(args: argparse.Namespace) -> None:
    with Barecat(args.file) as bc:
        check_archive(bc, quick=args.quick)


def _archive2barecat(args: argparse.Namespace) -> None:
    impl.archive2barecat(args.archive_file, args.barecat_file, parse_size(args.shard_size_limit), args.overwrite)


create = _command(
    "barecat-create",
    "create",
    "Pack files whose paths come from standard input.",
    _create,
    *_PACKING,
    flag("--null", help="paths end with a NUL"),
)
create_recursive = _command(
    "barecat-create-recursive",
    "create",
    "Pack what is in folders, without their names.",
    _create_recursive,
    *_PACKING,
    argument("paths", nargs="+", help="folders"),
    argument("--strip-root", action="store_true", default=True, help="leave out the names of the folders"),
    flag("--physical-order", help="in the order in which files lie on the disk"),
)
extract = _command(
    "barecat-extract",
    "extract",
    "Write all files of an archive to a folder.",
    lambda args: run_command(["extract", args.file, "-C", args.target_directory]),
    _PACKING[0],
    argument("--target-directory", required=True, help="the folder"),
)
extract_single = _command(
    "barecat-extract-single",
    "cat",
    "Write one file to standard output.",
    lambda args: run_command(["cat", args.barecat_file, args.path]),
    argument("--barecat-file", required=True, help="path of the archive"),
    argument("--path", required=True, help="path in the archive"),
)
index_to_csv = _command(
    "barecat-index-to-csv",
    "index-to-csv",
    "The index as CSV.",
    lambda args: run_command(["index-to-csv", args.file]),
    _FILE,
)
merge = _command("barecat-merge", "merge", "Copy archives into one.", _merge, *_MERGING, _SHARD_SIZE)
merge_symlink = _command(
    "barecat-merge-symlink",
    "merge --symlink",
    "Link to the shards of archives.",
    lambda args: impl.merge_symlink(args.input_paths, args.output, args.overwrite, args.ignore_duplicates),
    *_MERGING,
)
verify_integrity = _command("barecat-verify", "verify", "Check an archive.", _verify, _FILE, _QUICK)
defrag = _command(
    "barecat-defrag",
    "defrag",
    "Take gaps out of the shards.",
    lambda args: run_command(["defrag", args.file, *(["--quick"] if args.quick else [])]),
    _FILE,
    _QUICK,
)
archive2barecat = _command(
    "archive2barecat",
    "convert",
    "A tar or zip as an archive.",
    _archive2barecat,
    argument("archive_file", help="the tar or zip"),
    argument("barecat_file", help="the archive"),
    _SHARD_SIZE,
    _OVERWRITE,
)
barecat2archive = _command(
    "barecat2archive",
    "convert",
    "An archive as a tar or zip.",
    lambda args: impl.barecat2archive(args.barecat_file, args.archive_file),
    argument("barecat_file", help="the archive"),
    argument("archive_file", help="the tar or zip"),
)
print_ncdu_json = _command(
    "barecat-to-ncdu-json",
    "to-ncdu-json",
    "Sizes for ncdu.",
    lambda args: run_command(["to-ncdu-json", args.file]),
    _FILE,
)
upgrade_database = _command(
    "barecat-upgrade-database",
    "upgrade",
    "Bring an old index up to date.",
    lambda args: upgrade(args.path, workers=args.workers),
    argument("path", help="path of the archive"),
    argument("--workers", type=int, default=8, help="kept for scripts that pass it"),
)
