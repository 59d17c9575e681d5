"""The separate commands of older versions; ``barecat`` has them all."""

from __future__ import annotations

import argparse
import functools
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
from headrace.compat.barecat.util.misc import exists

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
_QUICK = argument("--quick", action="store_const", const="--quick", default="", help="only a part, in less time")
_WORKERS = argument("--workers", type=int, default=8, help="number of threads")
_FOLDER = argument("--target-directory", required=True, help="the folder")
_ARCHIVE = argument("--barecat-file", required=True, help="path of the archive")
_INSIDE = argument("--path", required=True, help="path in the archive")
_ARCHIVE_FILE = argument("archive_file", help="the tar or zip")
_BARECAT_FILE = argument("barecat_file", help="the archive")
_PACKED = argument("--file", required=True, help="path of the archive")
_PACKING = (_PACKED, argument("--workers", type=int, help="number of threads"), _SHARD_SIZE, _OVERWRITE)
_MERGING = (
    argument("input_paths", metavar="N", nargs="+", help="archives"),
    argument("--output", required=True, help="the archive they go into"),
    _OVERWRITE,
    flag("--ignore-duplicates", help="leave out files that are there already"),
)


def _command(
    name: str, instead: str, *arguments: Argument
) -> Callable[[Callable[[argparse.Namespace], None]], Callable[[], None]]:
    """A command of its own that says what to use instead; the docstring is its description."""

    def decorate(run: Callable[[argparse.Namespace], None]) -> Callable[[], None]:
        @functools.wraps(run)
        def command() -> None:
            warnings.warn(f"{name} is deprecated, use 'barecat {instead}' instead", DeprecationWarning, stacklevel=2)
            parser = argparse.ArgumentParser(prog=name, description=run.__doc__)
            for names, options in arguments:
                parser.add_argument(*names, **options)
            with report_errors():
                run(parser.parse_args())

        return command

    return decorate


def _renamed(name: str, words: str, *arguments: Argument) -> Callable[[], None]:
    """A command that is one of ``barecat`` with other names for its arguments, which stand in braces."""

    def run(args: argparse.Namespace) -> None:
        filled = [word.format(**vars(args)) for word in words.split()]
        run_command([word for word in filled if word])

    verb = words.partition(" ")[0]
    run.__doc__ = f"The same as 'barecat {verb}'."
    return _command(name, verb, *arguments)(run)


extract = _renamed("barecat-extract", "extract {file} -C {target_directory}", _PACKED, _FOLDER)
extract_single = _renamed("barecat-extract-single", "cat {barecat_file} {path}", _ARCHIVE, _INSIDE)
index_to_csv = _renamed("barecat-index-to-csv", "index-to-csv {file}", _FILE)
print_ncdu_json = _renamed("barecat-to-ncdu-json", "to-ncdu-json {file}", _FILE)
defrag = _renamed("barecat-defrag", "defrag {file} {quick}", _FILE, _QUICK)
barecat2archive = _renamed("barecat2archive", "convert -f {barecat_file} {archive_file}", _BARECAT_FILE, _ARCHIVE_FILE)
upgrade_database = _renamed("barecat-upgrade-database", "upgrade {file} -j {workers}", _FILE, _WORKERS)


@_command("barecat-create", "create", *_PACKING, flag("--null", help="paths end with a NUL"))
def create(args: argparse.Namespace) -> None:
    """Pack files whose paths come from standard input."""
    pairs = ((name, name) for name in read_names(sys.stdin.buffer, is_null=args.null))
    if exists(args.file) and not args.overwrite:
        fail(f"Archive '{args.file}' already exists. Use --overwrite to replace it.")
    impl.create(pairs, args.file, args.shard_size_limit, args.overwrite, workers=args.workers)


@_command(
    "barecat-create-recursive",
    "create",
    *_PACKING,
    argument("paths", nargs="+", help="folders"),
    argument("--strip-root", action="store_true", default=True, help="leave out the names of the folders"),
    flag("--physical-order", help="in the order in which files lie on the disk"),
)
def create_recursive(args: argparse.Namespace) -> None:
    """Pack what is in folders, without their names."""
    pairs = by_physical_order(_inside(args.paths)) if args.physical_order else _inside(args.paths)
    impl.create(pairs, args.file, args.shard_size_limit, args.overwrite, workers=args.workers)


def _inside(roots: list[str]) -> Iterator[tuple[str, str]]:
    for root in roots:
        for folder, dirs, files in os.walk(root):
            for name in (*files, *dirs):
                path = os.path.join(folder, name)
                yield path, os.path.relpath(path, root)


@_command("barecat-merge", "merge", *_MERGING, _SHARD_SIZE)
def merge(args: argparse.Namespace) -> None:
    """Copy archives into one."""
    impl.merge(args.input_paths, args.output, args.shard_size_limit, args.overwrite, args.ignore_duplicates)


@_command("barecat-merge-symlink", "merge --symlink", *_MERGING)
def merge_symlink(args: argparse.Namespace) -> None:
    """Link to the shards of archives."""
    impl.merge_symlink(args.input_paths, args.output, args.overwrite, args.ignore_duplicates)


@_command("barecat-verify", "verify", _FILE, _QUICK)
def verify_integrity(args: argparse.Namespace) -> None:
    """Check an archive."""
    with Barecat(args.file) as bc:
        check_archive(bc, quick=bool(args.quick))


@_command("archive2barecat", "convert", _ARCHIVE_FILE, _BARECAT_FILE, _SHARD_SIZE, _OVERWRITE)
def archive2barecat(args: argparse.Namespace) -> None:
    """A tar or zip as an archive."""
    impl.archive2barecat(args.archive_file, args.barecat_file, args.shard_size_limit, args.overwrite)
