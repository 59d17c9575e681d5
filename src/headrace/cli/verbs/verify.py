"""``headrace verify``: is a dataset intact?"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import headrace
from headrace.cli.archives import is_archive, open_archive
from headrace.cli.common import (
    add_engine,
    add_follow_links,
    add_json,
    add_progress,
    add_storage,
    add_workers,
    print_json,
    progress_bar,
    reading_options,
    say,
)
from headrace.errors import FormatError
from headrace.formats.open import locate
from headrace.progress import format_bytes, format_count
from headrace.types import Problem, Report

if TYPE_CHECKING:
    import argparse

    from headrace.types import Progress

HELP = "check every sample"
DESCRIPTION = """\
Check a dataset: its structure, every sample's checksum where there is one and, with --decode, that every value
decodes. Lists what is bad and then ends with exit code 1; with 2 if the dataset cannot even be opened."""
EXAMPLES = """\
examples:
  headrace verify train.beton
  headrace verify train.beton --decode -j 8
  headrace verify photos.barecat --quick
  headrace verify train.beton --json | jq '.problems[].sample'"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the verb takes."""
    parser.add_argument("path", metavar="FILE", help="a dataset; a path or URL")
    parser.add_argument("--decode", action="store_true", help="also decode every value")
    parser.add_argument("--quick", action="store_true", help=".barecat: index and places, not the bytes of the files")
    add_workers(parser)
    add_progress(parser)
    add_json(parser)
    add_follow_links(parser)
    add_storage(parser)
    add_engine(parser)


def run(args: argparse.Namespace) -> int:
    """Print the report; 1 when something is wrong."""
    try:
        with progress_bar("verifying", args, unit=f"{_unit(args)}s") as bar:
            report = _verify(args, bar)
    except FormatError as error:
        if args.json:  # so damaged that it does not open: that is an answer, too
            print_json(_facts(_unreadable(args.path, error)))
        raise
    if args.json:
        print_json(_facts(report))
    else:
        _print_report(report, args)
    return 0 if report.ok else 1


def _verify(args: argparse.Namespace, bar: Progress | None) -> Report:
    if is_archive(args.path) and not args.decode:
        if args.engine != "local":
            raise ValueError("--engine ray checks the files of a set; an archive is checked with --engine local")
        with open_archive(args.path, **reading_options(args)) as archive:
            try:
                return archive.verify(quick=args.quick, workers=args.workers, progress=bar)
            except FormatError as error:
                return _unreadable(args.path, error)
    if args.quick:
        raise ValueError("--quick is for archives (.barecat), and not together with --decode")
    return headrace.verify(
        args.path,
        decode=args.decode,
        workers=args.workers,
        progress=bar,
        engine=args.engine,
        address=args.address,
        **reading_options(args),
    )


def _unit(args: argparse.Namespace) -> str:
    return "file" if is_archive(args.path) and not args.decode else "sample"


def _facts(report: Report) -> dict[str, object]:
    return asdict(report) | {"ok": report.ok, "bad_samples": report.bad_samples}


def _unreadable(path: str, error: FormatError) -> Report:
    problem = Problem(sample=None, field=None, message=str(error).removeprefix(f"{path}: "))
    nothing = {"samples_checked": 0, "checksums_checked": 0, "images_decoded": 0, "size_bytes": 0}
    return Report(path=path, problems=(problem,), **nothing)


def _print_report(report: Report, args: argparse.Namespace) -> None:
    for problem in report.problems:
        where = "file: " if problem.sample is None else f"sample {problem.sample}: "
        if problem.field:
            where = f"{where[:-2]}, field {problem.field!r}: "
        if problem.sample is None and is_archive(report.path):
            where = ""  # the message says which of its files, or that it is the index
        say(f"{report.path}: {where}{problem.message}")
    if report.problems_left_out:
        say(f"{report.path}: and {format_count(report.problems_left_out, 'more problem')}")
    if args.quiet:
        return
    checked = format_count(report.samples_checked, _unit(args)) + (
        "" if args.quick else f", {format_bytes(report.size_bytes)}"
    )
    how = (
        [format_count(report.checksums_checked, "checksum")]
        if report.checksums_checked
        else ["structure only, no checksums"]
    )
    if args.decode:
        how.append(f"{format_count(report.images_decoded, 'picture')} decoded")
    affected = f", {format_count(len(report.bad_samples), _unit(args))} affected" if report.bad_samples else ""
    verdict = "ok" if report.ok else f"BAD: {format_count(len(report.problems), 'problem')}{affected}"
    say(f"{report.path}: {verdict} ({checked}; {', '.join(how)})")
    if report.ok and not report.checksums_checked and not args.quick and _has_annex(report.path):
        say(f"Values cannot be checked without checksums; make them with: headrace index {report.path}")


def _has_annex(path: str) -> bool:
    """An annex would help: the format has one, with checksums in it."""
    found = locate(path).format
    return found.index is not None and found.index_has_checksums
