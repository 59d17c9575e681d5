"""``headrace bench``: measure on this machine, with pictures of one's own."""

from __future__ import annotations

import contextlib
import shlex
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.bench import SUITES, Settings, find_suite, run_suite
from headrace.bench.compare import check_comparable, compare, read_result
from headrace.bench.pictures import find_photographs
from headrace.bench.rows import Missing
from headrace.cli.common import (
    ERRORS,
    add_json,
    add_progress,
    message_of,
    print_json,
    printable,
    say,
    whole_number_from,
)
from headrace.progress import format_count, format_duration, is_seen

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Mapping
    from typing import Any

    from headrace.bench.report import Result
    from headrace.bench.rows import Finding
    from headrace.bench.suite import Tell

ALL = "all"
HELP = "measure formats, codecs, orders, loaders and more on this machine"
DESCRIPTION = """\
Measure on this disk, with your pictures or with made-up ones, and write SUITE.json and SUITE.html into a folder: the
machine, the versions, medians and their spread, plots. The page needs no network. Suites:
  formats   the same samples in every format: size, write, open, reads, memory, requests to the disk
  loader    images a second of a training pipeline, beside the other loaders that are installed
  crops     crops of photographs by what is stored and how it is decoded, beside FFCV
  codecs    JPEG, PNG, WebP, raw: bytes, encoding, decoding, crops, error
  shuffle   speed of an order against how random it is, and whether a model notices
  reads     random samples of a file as bytes, beside plain Python
  libraries files of other formats beside h5py, lmdb, pyarrow, tfrecord
  convert   each format to .beton beside cp; folders, tars, pictures encoded anew
  archives  many small files, beside Barecat
  stores    photographs from an object store, beside other packages
  ops       what each op costs, beside Pillow and torchvision
  ffcv      programs written for FFCV, on FFCV and on headrace
  scaling   the cost of starting, opening, an order, a batch, as samples grow to ten million
  memory    what a loader takes
  resume    going on in the middle of an epoch
  gpu       crops that a GPU decodes, and what training notices
  all       one after the other, but for those that need what is not here; what fails does not stop the others
Files are written below the folder and removed at the end; the disk that is measured is the one the folder lies on."""
EXAMPLES = """\
examples:
  headrace bench formats --quick
  headrace bench loader crops --images photos --out results
  headrace bench codecs --compare results/codecs.json     exit code 1 if something became slower or larger"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the verb takes."""
    names = (*SUITES, ALL)
    parser.add_argument(
        "suites", metavar="SUITE", nargs="+", choices=names, help=f"what to measure: {', '.join(names)}"
    )
    parser.add_argument("--images", metavar="DIR", help="JPEG files to measure with (default: made-up pictures)")
    parser.add_argument(
        "--out", metavar="DIR", default="headrace-bench", help="folder of the results (default: headrace-bench)"
    )
    parser.add_argument(
        "--quick", action="store_true", help="at most two minutes a suite: fewer samples and repetitions"
    )
    parser.add_argument("--compare", metavar="OLD.json", help="exit with 1 if a figure became worse beyond its spread")
    parser.add_argument("--samples", type=whole_number_from(1, 10**8), metavar="N", help="how many samples")
    parser.add_argument("--rounds", type=whole_number_from(1, 1000), metavar="N", help="how often to measure each")
    add_progress(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Measure, write the reports, compare."""
    names = SUITES if ALL in args.suites else tuple(dict.fromkeys(args.suites))
    if args.compare and len(names) > 1:
        raise ValueError("--compare takes a result of one suite, so name one suite")
    if args.images is not None:  # before anything is written
        find_photographs(args.images, 1)
    if len(names) == 1:
        return _run_alone(names[0], args)
    return max([_run_guarded(name, args) for name in names])


def _run_alone(name: str, args: argparse.Namespace) -> int:
    """A suite whose error is that of the command; what was kept is said before."""
    try:
        return _run_one(name, args)
    except ERRORS as error:
        _say_notes(error)
        raise


def _run_guarded(name: str, args: argparse.Namespace) -> int:
    """One of several: whatever goes wrong in it, the others are measured."""
    try:
        return _run_one(name, args)
    except Exception as error:
        if args.traceback:
            traceback.print_exception(error)
        say(f"headrace: error: {name}: {message_of(error)}", file=sys.stderr)
        _say_notes(error)
        return 2


def _say_notes(error: BaseException) -> None:
    for note in getattr(error, "__notes__", ()):
        say(f"headrace: {note}", file=sys.stderr)


def _run_one(name: str, args: argparse.Namespace) -> int:
    suite = find_suite(name)
    if ALL in args.suites and (reason := suite.missing()):
        say(f"{name}: left out: {reason}", file=sys.stderr)
        return 0
    old = read_result(args.compare) if args.compare else None
    settings = Settings(
        work=Path(args.out), images=args.images, quick=args.quick, samples=args.samples, rounds=args.rounds
    )
    if old is not None:  # before minutes are spent
        check_comparable(old, {"suite": name, "settings": settings.as_json()})
    with _status_line(name, args) as tell:
        shown = (lambda finding: None) if args.quiet or args.json else _print_finding
        result = run_suite(suite, settings, command=_command(name, args), tell=tell, found=shown)
    if args.json:
        print_json(result.as_json())
    elif not args.quiet:
        _print_end(result, args.out)
    return 0 if old is None else _print_comparison(old, result, is_json=args.json)


def _command(name: str, args: argparse.Namespace) -> str:
    """What would be typed for one suite, without what does not change the figures."""
    words = ["headrace", "bench", name]
    for option in ("images", "out", "samples", "rounds"):
        if getattr(args, option) is not None:
            words += [f"--{option}", str(getattr(args, option))]
    return shlex.join([*words, "--quick"] if args.quick else words)


@contextlib.contextmanager
def _status_line(name: str, args: argparse.Namespace) -> Iterator[Tell]:
    """What is being done, in one line that is written over."""
    if args.quiet or args.json or not is_seen(sys.stderr):
        yield lambda what: None
        return
    width = 100

    def tell(what: str) -> None:
        sys.stderr.write("\r" + printable(f"{name}: {what} ...")[:width].ljust(width) + "\r")
        sys.stderr.flush()

    try:
        yield tell
    finally:
        sys.stderr.write("\r" + " " * width + "\r")
        sys.stderr.flush()


def _print_finding(finding: Finding) -> None:
    if isinstance(finding, Missing):
        say(f"{finding.name}: not measured: {finding.reason}")
    else:
        say(f"{finding.key:<72} {finding.text}")
    sys.stdout.flush()


def _print_end(result: Result, out: str) -> None:
    if result.warm_only:
        say(result.warm_only)
    rows = format_count(len(result.rows), "row")
    name = result.suite.name
    say(f"{rows} in {format_duration(result.seconds)}: {out}/{name}.json, {out}/{name}.html")


def _print_comparison(old: Mapping[str, Any], result: Result, *, is_json: bool) -> int:
    found = compare(old, result.as_json())
    stream = sys.stderr if is_json else sys.stdout
    for difference in found.differences:
        say(f"not the same machine: {difference}", file=stream)
    for word, changes in (("worse", found.worse), ("better", found.better)):
        for change in changes:
            say(f"{word}: {change.key}: {change.factor:.2f} times as good: {change.text}", file=stream)
    for key in found.gone:
        say(f"not measured now: {key}", file=stream)
    say(f"{format_count(len(found.worse), 'figure')} worse beyond the spread, {len(found.better)} better", file=stream)
    return 1 if found.worse else 0
