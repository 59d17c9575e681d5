"""``headrace index``: give a dataset an annex."""

from __future__ import annotations

import contextlib
import io
import os
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import headrace
from headrace.cli.archives import open_archive
from headrace.cli.common import (
    add_engine,
    add_follow_links,
    add_json,
    add_progress,
    add_storage,
    add_tasks,
    print_json,
    progress_bar,
    reading_options,
    say,
)
from headrace.formats.open import format_of_name
from headrace.progress import format_count
from headrace.storage import AtomicFile, check_local
from headrace.transfer.index_table import export_index, import_index

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

HELP = "make checksums, names and tile indices of JPEGs for a file without"
DESCRIPTION = """\
Give a dataset an annex: a checksum for every value, a tile index of every JPEG so that crops are decoded without the
rest of their pictures, and names and classes if you have them and the format has none. It goes beside the file as
FILE.annex, or into a .beton with --embed; FFCV reads the file all the same. Names and classes that an annex has already
are kept. An .ffr (a file, or a folder of parts) and a .barecat have checksums of their own, and get tile indices alone.
An object of a store is read, and its annex becomes an object beside it.
The list of files of a .barecat can be written as a table, and made from one."""
EXAMPLES = """\
examples:
  headrace index train.beton
  headrace index train.beton --embed
  headrace index train.beton --embed --fresh      the annex is damaged: make a new one
  headrace index photos.parquet                   checksums, and tile indices of its JPEGs, beside it
  headrace index 's3://bucket/train-*.tar'         each annex becomes an object
  headrace index photos.barecat --export index.csv
  headrace index train.beton --names names.txt --classes label=classes.txt"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the verb takes."""
    parser.add_argument("path", metavar="FILE", help="a dataset; a path or URL")
    parser.add_argument("--embed", action="store_true", help="into the file instead of beside it")
    parser.add_argument(
        "--fresh", action="store_true", help="do not look at the annex there is, for example a damaged one"
    )
    parser.add_argument("--names", metavar="TEXT", help="file with one sample name a line")
    parser.add_argument("--classes", metavar="FIELD=TEXT", help="file with one class name a line")
    parser.add_argument("--no-jpeg-index", action="store_true", help="no tile indices of JPEGs")
    parser.add_argument("--export", metavar="TABLE", help=".barecat: write the index as CSV")
    parser.add_argument("--import", dest="table", metavar="TABLE", help=".barecat: make the index of shards from CSV")
    parser.add_argument("-f", "--force", action="store_true", help="with --import: replace the index there is")
    add_follow_links(parser)
    add_storage(parser)
    add_engine(parser)
    add_tasks(parser)
    add_progress(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Make the annex."""
    if args.export or args.table:
        return _run_table(args)
    names = _lines_of(args.names) if args.names else None
    class_names = None
    if args.classes:
        field, is_pair, file = args.classes.partition("=")
        if not is_pair:
            raise ValueError(f"--classes takes FIELD=TEXT, got {args.classes!r}")
        class_names = {field: _lines_of(file)}
    with progress_bar("indexing", args) as bar:
        where = headrace.index(
            args.path,
            embed=args.embed,
            fresh=args.fresh,
            names=names,
            class_names=class_names,
            jpeg_index=not args.no_jpeg_index,
            progress=bar,
            engine=args.engine,
            address=args.address,
            workers=args.workers,
            **reading_options(args),
        )
    if args.json:
        print_json({"path": args.path, "annex": where})
    elif not args.quiet:
        say(f"{args.path}: the annex is in {where}")
    return 0


def _lines_of(path: str) -> list[str]:
    try:
        return Path(path).read_text("utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8 text (at byte {error.start})") from None


@contextlib.contextmanager
def _open_table(path: str) -> Iterator[TextIO]:
    """A text file that replaces an older one when it is complete; a device such as /dev/stdout is written as it is."""
    if os.path.exists(path) and not os.path.isfile(path):
        with open(path, "w", encoding="utf-8", newline="") as device:
            yield device
        return
    with AtomicFile(path) as file, io.TextIOWrapper(file.stream(), encoding="utf-8", newline="") as text:
        yield text


def _run_table(args: argparse.Namespace) -> int:
    named = format_of_name(args.path)
    if named is None or named.open_archive is None or (args.export and args.table):
        raise ValueError("give --export or --import, and an archive (.barecat)")
    if args.table and args.follow_links:
        raise ValueError("--import reads a table and no shards; leave --follow-links out")
    if args.table:
        check_local(args.path)
    if args.export:
        with open_archive(args.path, **reading_options(args)) as archive, _open_table(args.export) as file:
            count = export_index(archive, file)
    else:
        with open(args.table, encoding="utf-8", newline="") as file:
            count = import_index(args.path, file, force=args.force)
    if args.json:
        print_json({"path": args.path, "rows": count})
    elif not args.quiet:
        say(f"{args.path}: {format_count(count, 'row')}")
    return 0
