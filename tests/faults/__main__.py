"""``python -m tests.faults``: faults at calls to the system, and a table of what came of them.

usage: python -m tests.faults [--only TEXT] [--fault NAME] [--at NUMBER] [--points N] [--jobs N] ...
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import itertools
import json
import multiprocessing
import os
import re
import sys
import tempfile
import time
from collections import Counter, defaultdict
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from tests.faults.campaign import FAULTS, Bench, Outcome, Point, Reference
from tests.faults.disks import on_full_disks, why_no_mounts
from tests.faults.scenarios import Scenario, all_scenarios, fill_large, fill_pantry, fill_unfinished, large_scenarios
from tests.faults.supervisor import why_not

if TYPE_CHECKING:
    from collections.abc import Iterator

_references: dict[str, Reference] = {}
_bench: Bench | None = None
_count = 0


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--only", metavar="TEXT", help="commands in which this occurs")
    parser.add_argument("--targets", choices=["archives", "others"], help="commands that write .barecat, or all others")
    parser.add_argument("--fault", choices=list(FAULTS), action="append", help="only this fault; may be repeated")
    parser.add_argument("--disks", action="store_true", help="disks that are really full, instead (for root)")
    parser.add_argument("--share", metavar="K/N", help="only every N-th command, from the K-th on")
    parser.add_argument("--at", type=int, metavar="NUMBER", help="only at this call")
    parser.add_argument("--points", type=int, metavar="N", help="about this many, chosen evenly (default: all)")
    parser.add_argument("--skip", type=int, default=0, metavar="N", help="leave out the first N points")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), metavar="N", help="processes")
    parser.add_argument("--json", metavar="FILE", help="also write every outcome to FILE, a line each")
    parser.add_argument("--list", action="store_true", help="only list commands and how many calls they make")
    parser.add_argument("--step", type=int, default=1, metavar="N", help="full disks: how many pages more each time")
    parser.add_argument("--shown", type=int, default=40, metavar="N", help="how many findings to show (default: 40)")
    return parser.parse_args()


def main() -> int:
    """Run points; 1 if there are findings."""
    args = _parse()
    if reason := why_not():
        print(reason, file=sys.stderr)
        return 77
    start_s = time.monotonic()
    with (
        tempfile.TemporaryDirectory(prefix="headrace-faults-") as place,
        open(args.json, "w") if args.json else contextlib.nullcontext() as lines,
    ):
        outcomes = []
        for outcome in (_run_disks if args.disks else _run_points)(args, Path(place)):
            outcomes.append(outcome)
            if lines:
                lines.write(json.dumps(asdict(outcome)) + "\n")
    if args.list:
        for name, reference in _references.items():
            print(f"{len(reference.requests):5} {name}")
        print(f"{_count:5} points")
        return 0
    _print_table(outcomes)
    found = _print_findings(outcomes, args.shown)
    print(f"{len(outcomes):,} points in {time.monotonic() - start_s:.0f} s, {found} with findings")
    return 1 if found else 0


def _chosen(args: argparse.Namespace) -> list[Scenario]:
    first, _, step = (args.share or "0/1").partition("/")
    known = [*all_scenarios(), *(large_scenarios() if args.disks else ())]
    found = [scenario for scenario in known if not args.only or args.only in scenario.name]
    if args.targets:
        is_archive = args.targets == "archives"
        found = [scenario for scenario in found if scenario.targets[0].endswith(".barecat") == is_archive]
    return found[int(first) :: int(step)]


def _run_points(args: argparse.Namespace, place: Path) -> Iterator[Outcome]:
    """Faults at calls; what runs without a fault is in ``_references`` afterwards."""
    (place / "first").mkdir()
    bench = Bench(place / "first")
    found: list[list[Point]] = []
    for scenario in _chosen(args):
        reference = _references[scenario.name] = bench.reference(scenario)
        found.append(reference.points(scenario, args.fault or list(FAULTS)))
    points = _some(found, args.points) if args.points else list(itertools.chain(*found))
    if args.at is not None:
        points = [point for point in points if point.number == args.at]
    points = points[args.skip :]
    if args.list:
        global _count
        _count = len(points)
        return
    with multiprocessing.get_context("fork").Pool(args.jobs, _begin, (place,)) as pool:
        yield from pool.imap_unordered(_run_one, points, chunksize=4)


def _some(found: list[list[Point]], wanted: int) -> list[Point]:
    """About as many points as are wanted: half of them the same number for each command, half by how many it has.

    Within a command they are spread evenly, and begin elsewhere for each, so that all faults have their turn.
    """
    total = sum(map(len, found))
    chosen = []
    for k, points in enumerate(found):
        count = round(wanted * (0.5 / len(found) + 0.5 * len(points) / total))
        count = min(len(points), max(1, count))
        start = k * 0.618 % 1
        chosen += [points[int((i + start) * len(points) / count)] for i in range(count)]
    return chosen


def _run_disks(args: argparse.Namespace, place: Path) -> Iterator[Outcome]:
    """Full disks, for one command after the other."""
    if reason := why_no_mounts():
        print(reason, file=sys.stderr)
        sys.exit(77)
    pantry = place / "pantry"
    pantry.mkdir()
    fill_pantry(pantry)
    fill_unfinished(pantry)
    fill_large(pantry)
    gc.freeze()
    for scenario in _chosen(args):
        is_large = scenario.base[0].startswith("large")
        yield from on_full_disks(scenario, place, pantry, step=args.step * (6 if is_large else 1))


def _begin(place: Path) -> None:
    global _bench
    gc.freeze()  # what a fork collects is its own
    own = place / str(os.getpid())
    own.mkdir()
    _bench = Bench(own, place / "first" / "pantry")


def _run_one(point: Point) -> Outcome:
    assert _bench is not None
    return _bench.run(point, _references[point.scenario.name])


def _print_table(outcomes: list[Outcome]) -> None:
    columns = ("points", "old", "new", "mixed", "repaired", "findings")
    rows: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for outcome in outcomes:
        for key in ((outcome.verb, outcome.fault), ("all", outcome.fault), ("all", "all")):
            rows[key].update(
                ("points", outcome.state, *["repaired"] * outcome.repaired, *["findings"] * bool(outcome.findings))
            )
    order = {name: i for i, name in enumerate([*dict.fromkeys(outcome.verb for outcome in outcomes), "all"])}
    faults = {name: i for i, name in enumerate([*FAULTS, "disk", "all"])}
    print(f"{'verb':10} {'fault':8}" + "".join(f"{name:>10}" for name in columns))
    for verb, fault in sorted(rows, key=lambda key: (order[key[0]], faults[key[1]])):
        print(f"{verb:10} {fault:8}" + "".join(f"{rows[verb, fault][name]:>10,}" for name in columns))


def _print_findings(outcomes: list[Outcome], shown: int) -> int:
    """Findings that say the same about the same command and fault are shown once, with all their calls."""
    alike: dict[tuple[str, str, str], list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        for text in outcome.findings:
            kind = re.sub(r"/\S*/work/|(?<=\.)[0-9a-f]{8}(?=\.)|0x[0-9a-f]+", "", text)
            alike[outcome.scenario, outcome.fault, kind].append(outcome)
    for (scenario, fault, text), found in sorted(alike.items())[:shown]:
        first = min(found, key=lambda outcome: outcome.number)
        print(f"\n{scenario}: {fault} at calls {_ranges([outcome.number for outcome in found])}, first {first.call}")
        print(f"  {text}")
        which = "--disks" if fault == "disk" else f"--fault {fault} --at {first.number}"
        print(f"  python -m tests.faults --only {json.dumps(scenario)} {which}")
    if len(alike) > shown:
        print(f"\n... and {len(alike) - shown} more")
    return sum(bool(outcome.findings) for outcome in outcomes)


def _ranges(numbers: list[int]) -> str:
    """Numbers as people write them: 3-5, 9."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


if __name__ == "__main__":
    sys.exit(main())
