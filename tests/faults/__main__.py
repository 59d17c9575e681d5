"""``python -m tests.faults``: faults at calls to the system, and a table of what came of them.

usage: python -m tests.faults [--only TEXT] [--fault NAME] [--at NUMBER] [--points N] [--jobs N] [--seconds S] ...

Points run in an order that is mixed, always the same way: wherever it is stopped, all commands and faults had their
share. The log has every outcome at once; a later run leaves out what is in it (--without).
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import itertools
import json
import multiprocessing
import os
import random
import re
import signal
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
_all_points: list[Point] = []
_chosen_points: list[Point] = []
_bench: Bench | None = None
_until_s: float | None = None
_START_S = time.monotonic()
_SAY_S = 60.0
_LOST_S = 300.0  # many times what a point may take


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
    parser.add_argument("--seconds", type=float, metavar="S", help="begin no point after this time (default: all run)")
    parser.add_argument("--log", metavar="FILE", help="add every outcome to FILE at once, a line of JSON each")
    parser.add_argument("--without", metavar="FILE", action="append", default=[], help="leave out what is in this log")
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
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    outcomes: list[Outcome] = []
    try:
        with tempfile.TemporaryDirectory(prefix="headrace-faults-") as place:
            _collect((_run_disks if args.disks else _run_points)(args, Path(place)), args, outcomes)
    finally:
        if not args.list:
            found = _print_all(outcomes, args)
    if args.list:
        _print_commands()
        return 0
    return 1 if found else 0


def _collect(coming: Iterator[Outcome], args: argparse.Namespace, outcomes: list[Outcome]) -> None:
    """Take outcomes as they come, with a line each into the log, and every minute one about all of them."""
    say_s = _START_S + _SAY_S
    with open(args.log, "a", buffering=1) if args.log else contextlib.nullcontext() as log:
        for outcome in coming:
            outcomes.append(outcome)
            if log:
                log.write(json.dumps(asdict(outcome)) + "\n")
            if (now_s := time.monotonic()) >= say_s:
                say_s = now_s + _SAY_S
                found = sum(bool(outcome.findings) for outcome in outcomes)
                of = f" of {len(_chosen_points):,}" if _chosen_points else ""
                print(f"{now_s - _START_S:6.0f} s: {len(outcomes):,}{of} points, {found} with findings", flush=True)


def _print_all(outcomes: list[Outcome], args: argparse.Namespace) -> int:
    _print_table(outcomes)
    if not args.disks:
        print()
        _print_kinds(outcomes)
    found = _print_findings(outcomes, args.shown)
    of = f" of {len(_chosen_points):,}" if len(outcomes) < len(_chosen_points) else ""
    print(f"{len(outcomes):,}{of} points in {time.monotonic() - _START_S:.0f} s, {found} with findings", flush=True)
    return found


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
        _all_points.extend(found[-1])
    points = _some(found, args.points) if args.points else list(itertools.chain(*found))
    done = _logged(args.without)
    points = [
        point
        for point in points
        if args.at in (None, point.number) and (point.scenario.name, point.fault, point.number) not in done
    ]
    random.Random(len(FAULTS)).shuffle(points)
    _chosen_points.extend(points[args.skip :])
    if args.list:
        return
    until_s = _START_S + args.seconds if args.seconds else None
    with multiprocessing.get_context("fork").Pool(args.jobs, _begin, (place, until_s)) as pool:
        coming = pool.imap_unordered(_run_one, _chosen_points)
        for _ in _chosen_points:
            try:
                outcome = coming.next(timeout=_LOST_S)
            except multiprocessing.TimeoutError:
                print(f"nothing has come for {_LOST_S:.0f} s: a process was lost", file=sys.stderr)
                return
            if outcome is not None:
                yield outcome


def _logged(paths: list[str]) -> set[tuple[str, str, int]]:
    """The points in logs of earlier runs."""
    done = set()
    for path in paths:
        with open(path) as lines:
            done |= {(one["scenario"], one["fault"], one["number"]) for one in map(json.loads, lines)}
    return done


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


def _begin(place: Path, until_s: float | None) -> None:
    global _bench, _until_s
    _until_s = until_s
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    gc.freeze()  # what a fork collects is its own
    own = place / str(os.getpid())
    own.mkdir()
    _bench = Bench(own, place / "first" / "pantry")


def _run_one(point: Point) -> Outcome | None:
    """The outcome, or None after the end of the time."""
    assert _bench is not None
    if _until_s is not None and time.monotonic() >= _until_s:
        return None
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


def _print_kinds(outcomes: list[Outcome]) -> None:
    """For each verb and format of its target: how many commands and points there are, and how many ran."""
    rows: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    kinds = {point.scenario.name: (point.scenario.verb, point.scenario.kind) for point in _all_points}
    for point in _all_points:
        rows[kinds[point.scenario.name]]["all"] += 1
    for name in _references:
        if name in kinds:  # a command that changes nothing has no points
            rows[kinds[name]]["commands"] += 1
    for outcome in outcomes:
        rows[kinds[outcome.scenario]].update(("ran", *["findings"] * bool(outcome.findings)))
    columns = ("commands", "all", "ran", "findings")
    print(f"{'verb':10} {'target':8}" + "".join(f"{name:>10}" for name in columns))
    for (verb, kind), counts in rows.items():
        print(f"{verb:10} {kind:8}" + "".join(f"{counts[name]:>10,}" for name in columns))
    total = Counter[str]()
    for counts in rows.values():
        total.update(counts)
    print(f"{'all':10} {'all':8}" + "".join(f"{total[name]:>10,}" for name in columns))


def _print_commands() -> None:
    """Each command, how many calls it makes, and how many points are chosen of how many."""
    chosen, known = (Counter(point.scenario.name for point in points) for points in (_chosen_points, _all_points))
    print("calls points chosen command")
    for name, reference in _references.items():
        print(f"{len(reference.requests):5} {known[name]:6} {chosen[name]:6} {name}")
    print(f"{'':5} {known.total():6} {chosen.total():6} in all")


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
