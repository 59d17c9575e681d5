"""Runs commands with a fault at one of their calls to the system, and judges what they left.

A *point* is a scenario, a fault and the number of a call. For each point the folder is laid out anew, the command runs
in a fork with the fault, and a second fork looks at the result: the target is as before or as after, whole; the exit
code says so; the command can be repeated, and then nothing is left over.
"""

from __future__ import annotations

import contextlib
import errno
import gc
import importlib
import json
import os
import re
import select
import shutil
import signal
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.faults.calls import CALLS
from tests.faults.scenarios import Scenario, fill_pantry, fill_unfinished
from tests.faults.states import DamagedError, State, looks, names_below, shards_in_use, state_of
from tests.faults.supervisor import Answer, Request, Run, no_syncs, supervised

import headrace.cli.main as command
from headrace.errors import ArchiveBusyError, UnfinishedError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

__all__ = ["FAULTS", "Bench", "Outcome", "Point"]

FAULTS = {
    "kill": "the process is killed before the call",
    "torn": "half of the call is done, then the process is killed",
    "short": "half of the call is done, which is no error",
    "eio": "the call fails with EIO",
    "enospc": "the call fails with ENOSPC",
    "full": "from this call on, whatever takes space fails with ENOSPC",
    "broken": "from this call on, all calls that change something fail with EIO",
    "stop": "the process stands still before the call, and others read",
}
_UNFINISHED = "unfinished"
_TEMPORARY = (".incomplete", "-undo", "-journal", "-wal", "-shm", "-replace", ".lock")
_SLOW_S = 30.0
_CREATES = ("open", "openat", "openat2", "creat", "mkdir", "mkdirat", "link", "linkat", "symlink", "symlinkat")


@dataclass(frozen=True)
class Point:
    """Where a fault comes: the number of a call of a command."""

    scenario: Scenario
    fault: str
    number: int


@dataclass
class Outcome:
    """What came of a point.

    Attributes:
        scenario: name of the command.
        verb: of the command.
        fault: which one.
        number: of the call.
        call: its name and file.
        state: old, new, or mixed for folders in which some files are new.
        repaired: the archive said that it is unfinished, and ``headrace repair`` finished it.
        findings: all that should not be.
    """

    scenario: str
    verb: str
    fault: str
    number: int
    call: str = ""
    state: str = ""
    repaired: bool = False
    findings: list[str] = field(default_factory=list)


@dataclass
class Reference:
    """A scenario without fault.

    Attributes:
        requests: the calls it makes.
        before, after: the states of its targets.
        names_before, names_after: of all files.
    """

    requests: list[Request]
    before: dict[str, State]
    after: dict[str, State]
    names_before: list[str]
    names_after: list[str]

    def points(self, scenario: Scenario, faults: list[str]) -> list[Point]:
        """All points at which a fault makes sense."""
        return [
            Point(scenario, fault, request.number)
            for fault in faults
            for request in self.requests
            if _can_have(fault, request)
        ]


def _can_have(fault: str, request: Request) -> bool:
    if fault in ("torn", "short"):
        return request.can_be_short
    if fault == "full":
        return _needs_space(request)
    return request.takes_space if fault == "enospc" else True


def _needs_space(request: Request) -> bool:
    """It cannot be done on a full disk, wherever in the file it is; renames, syncs and cuts can."""
    return CALLS[request.name].size is not None or request.name in (*_CREATES, "fallocate")


def _decider(fault: str, number: int, on_stop: Callable[[], None], hit: list[Request]) -> Callable[[Request], Answer]:
    """What to answer to each call; the one that gets the fault first is noted."""

    def decide(request: Request) -> Answer:
        if request.number < number or not _can_have(fault, request) or (hit and fault not in ("full", "broken")):
            return None
        hit.append(request)
        if fault == "stop":
            on_stop()
            return None
        if fault in ("kill", "torn", "short"):
            return fault  # type: ignore[return-value]
        return errno.EIO if fault in ("eio", "broken") else errno.ENOSPC

    return decide


def _parse_quickly() -> None:
    """Make the parser of the command once, and not in every fork."""
    parser = command.build_parser()
    command.build_parser = lambda *_: parser


class Bench:
    """A place to run scenarios: a pantry, a folder, files for what commands print.

    Args:
        place: an empty folder.
        pantry: one that is filled already.
        printed: the file for what commands print; by default in the same place.
    """

    def __init__(self, place: Path, pantry: Path | None = None, *, printed: Path | None = None) -> None:
        _parse_quickly()
        self.pantry = pantry or place / "pantry"
        if pantry is None:
            self.pantry.mkdir()
            fill_pantry(self.pantry)
            fill_unfinished(self.pantry)
        self.folder, self._printed = place / "work", printed or place / "printed"

    def reference(self, scenario: Scenario) -> Reference:
        """Run a scenario without fault; also imports here what it imports there, so that later runs need not."""
        self.lay_out(scenario)
        names_before, before = names_below(str(self.folder)), self._states(scenario)
        requests: list[Request] = []
        modules = self._printed.with_name("modules")

        def work() -> int:
            code = self._command(scenario.words)
            modules.write_text("\n".join(sys.modules))
            return code

        run = supervised(work, requests.append, folder=str(self.folder))
        if run.status != 0:
            raise RuntimeError(f"{scenario.name} fails without a fault: {self._printed.read_text()}")
        for name in modules.read_text().split():
            if name not in sys.modules:
                with contextlib.suppress(Exception):
                    importlib.import_module(name)
        names_after = names_below(str(self.folder))
        if left := _temporary(names_after):
            raise RuntimeError(f"{scenario.name} leaves {left} without a fault")
        return Reference(requests, before, self._states(scenario), names_before, names_after)

    def lay_out(self, scenario: Scenario) -> None:
        """The folder as it is before the command."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir()
        scenario.lay_out(str(self.pantry), str(self.folder))

    def _states(self, scenario: Scenario) -> dict[str, State]:
        return {target: self._state(target) for target in scenario.targets}

    def _state(self, target: str) -> State:
        try:
            return state_of(str(self.folder / target))
        except UnfinishedError:  # what repair begins with
            return {_UNFINISHED: ""}

    def _command(self, words: tuple[str, ...]) -> int:
        """Run a command in this process, which is a fork; gives the exit code."""
        os.chdir(self.folder)
        out = os.open(self._printed, os.O_CREAT | os.O_TRUNC | os.O_RDWR, 0o600)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        for fd in (1, 2):
            os.dup2(out, fd)
        sys.stdin, sys.stdout = open(0, closefd=False), open(1, "w", closefd=False)  # noqa: SIM115
        sys.stderr = open(2, "w", buffering=1, closefd=False)  # noqa: SIM115
        return _guarded_main(words)

    def run(self, point: Point, reference: Reference) -> Outcome:
        """One point."""
        scenario = point.scenario
        self.lay_out(scenario)
        outcome = Outcome(scenario.name, scenario.verb, point.fault, point.number)
        hit: list[Request] = []

        def on_stop() -> None:
            found = self._in_fork(lambda: self._look_on(scenario, reference))
            outcome.findings += [f"while it stands still: {text}" for text in found]

        decide = _decider(point.fault, point.number, on_stop, hit)
        run = supervised(lambda: self._command(scenario.words), decide, folder=str(self.folder), timeout_s=_SLOW_S)
        outcome.call = f"{hit[0].name} {hit[0].path or '.'}" if hit else "none"
        printed = self._printed.read_text(errors="replace") if self._printed.exists() else ""
        self._judge_run(point, run, printed, bool(hit), outcome)
        self._judge_result(point, run, reference, outcome, bool(hit))
        return outcome

    def run_plainly(self, scenario: Scenario) -> tuple[int, str]:
        """Run a command in the folder as it is; gives the exit code and what was printed."""
        child = os.fork()
        if child == 0:
            code = 70
            try:
                code = self._command(scenario.words)
            finally:
                os._exit(code)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        return status, self._printed.read_text(errors="replace")

    def judge_elsewhere(self, scenario: Scenario, reference: Reference, status: int, printed: str) -> Outcome:
        """Judge a run that met its fault in another way, such as a disk that was full."""
        outcome = Outcome(scenario.name, scenario.verb, "disk", 0)
        run = Run(status=status)
        self._judge_run(Point(scenario, "full", 0), run, printed, True, outcome)
        self._judge_result(Point(scenario, "full", 0), run, reference, outcome, True)
        return outcome

    def _judge_run(self, point: Point, run: Run, printed: str, is_hit: bool, outcome: Outcome) -> None:
        if run.is_hung:
            outcome.findings.append(f"it does not end within {_SLOW_S:.0f} s")
        for word in ("Traceback", "Exception ignored"):
            if word in printed:
                outcome.findings.append(f"{word}: {_last_line(printed)}")
        if not is_hit or (point.fault in ("short", "stop") and not (point.fault == "short" and _refuses_short(point))):
            if run.status != 0:
                outcome.findings.append(f"exit code {run.status}, 0 expected: {_last_line(printed)}")
        elif point.fault in ("kill", "torn"):
            if run.status != -signal.SIGKILL:
                outcome.findings.append(f"status {run.status} of a killed process")
        elif run.status not in (0, 2):
            outcome.findings.append(f"exit code {run.status}: {_last_line(printed)}")
        elif run.status == 2 and not printed.strip():
            outcome.findings.append("exit code 2 without a word")

    def _judge_result(self, point: Point, run: Run, reference: Reference, outcome: Outcome, is_hit: bool) -> None:
        result = self._in_fork(lambda: self._look(point, run, reference, is_hit))
        if isinstance(result, dict):
            outcome.state, outcome.repaired = result["state"], result["repaired"]
            outcome.findings += result["findings"]
        else:
            outcome.findings += result

    # In forks

    def _in_fork(self, work: Callable[[], Any]) -> Any:
        """What a function gives that runs in a fork, or a list of what went wrong."""
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            code = 1
            try:
                os.close(read)
                no_syncs()
                answer = json.dumps(work()).encode()
                while answer:
                    answer = answer[os.write(write, answer) :]
                code = 0
            except BaseException as error:
                os.write(write, json.dumps([f"judging failed: {type(error).__name__}: {error}"]).encode())
            finally:
                os._exit(code)
        os.close(write)
        data, until_s = b"", time.monotonic() + _SLOW_S
        while select.select([read], [], [], max(0.0, until_s - time.monotonic()))[0]:
            part = os.read(read, 65536)
            if not part:
                break
            data += part
        else:
            os.kill(child, signal.SIGKILL)
            data = json.dumps([f"reading the result does not end within {_SLOW_S:.0f} s"]).encode()
        os.close(read)
        _, status = os.waitpid(child, 0)
        return json.loads(data) if data else [f"reading the result ended with status {status}"]

    def _look_on(self, scenario: Scenario, reference: Reference) -> list[str]:
        """Read the targets beside a process that stands still, without changing anything."""
        _be_impatient()
        before = looks(str(self.folder))
        findings = []
        for target in scenario.targets:
            try:
                state = state_of(str(self.folder / target))
            except (ArchiveBusyError, UnfinishedError):
                continue
            except Exception as error:
                findings.append(f"{target}: {type(error).__name__}: {error}")
            else:
                findings += _compare(target, state, reference, by_file=scenario.by_file)[1]
        after = looks(str(self.folder))
        if changed := sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name)):
            findings.append(f"reading changed {changed}")
        return findings

    def _look(self, point: Point, run: Run, reference: Reference, is_hit: bool) -> dict[str, Any]:
        scenario = point.scenario
        findings: list[str] = []
        is_killed = point.fault in ("kill", "torn")
        names = names_below(str(self.folder))
        states, repaired = {}, False
        for target in scenario.targets:
            state, problem, was_repaired = self._read_or_repair(target)
            repaired |= was_repaired
            if problem:
                findings.append(problem)
                states[target] = "bad"
            else:
                states[target], problems = _compare(target, state, reference, by_file=scenario.by_file)
                findings += problems
        findings += self._changed_sources(scenario)
        found = set(states.values()) - {"same"} or {"new" if run.status == 0 else "old"}
        whole = found.pop() if len(found) == 1 else "bad" if "bad" in found else "mixed"
        if run.status == 0 and not is_killed and whole != "new":
            findings.append(f"exit code 0, and the target is {whole}")
        is_whole = "bad" not in (whole, *states.values())
        can_tidy = point.fault in ("short", "stop", "enospc", "full") or not is_hit
        kept = [name for name in names if name not in scenario.notes]
        if is_whole and can_tidy and not repaired and (left := self._left(kept, scenario, reference)):
            findings.append(f"left behind at once: {left}")
        if is_whole:
            findings += self._repeat(scenario, reference, whole)
        return {"state": whole, "repaired": repaired, "findings": findings}

    def _read_or_repair(self, target: str) -> tuple[State, str, bool]:
        path = str(self.folder / target)
        try:
            try:
                return state_of(path), "", False
            except UnfinishedError:
                code = self._command(("repair", path))
                if code != 0:
                    return {}, f"repair fails: {_last_line(self._printed.read_text())}", True
                return state_of(path), "", True
        except DamagedError as error:
            return {}, f"{target} is damaged: {error}", False
        except Exception as error:
            return {}, f"{target} cannot be read: {type(error).__name__}: {error}", False

    def _changed_sources(self, scenario: Scenario) -> list[str]:
        """What the command only reads is as it was."""
        changed = []
        for name in scenario.base:
            if not name.endswith(".barecat") and name not in scenario.targets:
                given, found = self.pantry / name, self.folder / name
                if not found.exists() or state_of(str(given)) != state_of(str(found)):
                    changed.append(f"{name}, which is only read, has changed")
        return changed

    def _left(
        self, names: list[str], scenario: Scenario, reference: Reference, known: list[str] | None = None
    ) -> list[str]:
        """Names that are neither known nor those of shards that files lie in: a fault may leave gaps, and so more."""
        left = set(names) - set(known or (*reference.names_before, *reference.names_after))
        archives = [target for target in scenario.targets if left and target.endswith(".barecat")]
        return sorted(left.difference(*(shards_in_use(str(self.folder / target)) for target in archives)))

    def _repeat(self, scenario: Scenario, reference: Reference, whole: str) -> list[str]:
        findings = []
        words = scenario.again if scenario.again and whole != "old" else scenario.words
        code = self._command(words)
        printed = self._printed.read_text(errors="replace")
        if code != 0 and (whole != "new" or code != 2):
            findings.append(f"again: exit code {code}: {_last_line(printed)}")
        if "Traceback" in printed:
            findings.append(f"again: Traceback: {_last_line(printed)}")
        for target in scenario.targets:
            state, problem, was_repaired = self._read_or_repair(target)
            if problem or was_repaired:
                findings.append(f"again: {problem or 'unfinished'}")
            elif differ := _differences(state, reference.after[target]):
                findings.append(f"again: {target} is not as it should be: {differ[:5]}")
        names, known = _usual_names(names_below(str(self.folder))), _usual_names(reference.names_after)
        if left := self._left(names, scenario, reference, known=known):
            findings.append(f"again: left behind: {left}")
        if missing := sorted(set(known) - set(names)):
            findings.append(f"again: missing: {missing}")
        return findings


def _be_impatient() -> None:
    """In this process, archives do not wait seconds for a writer that stands still."""
    for name, module in list(sys.modules.items()):
        if name.startswith("headrace.formats.barecat"):
            for constant, value in list(vars(module).items()):
                if constant.endswith("_S") and isinstance(value, float) and value >= 1:
                    setattr(module, constant, 0.1)


def _guarded_main(words: tuple[str, ...]) -> int:
    try:
        code = command.main(list(words))
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 2
    except BaseException:
        import traceback

        traceback.print_exc()
        code = 1
    gc.collect()
    sys.stdout.flush()
    sys.stderr.flush()
    return code


def _refuses_short(point: Point) -> bool:
    """LMDB takes a short write for a full disk, and says so."""
    return ".lmdb" in point.scenario.targets[0]


def _temporary(names: list[str]) -> list[str]:
    return [name for name in names if name.endswith(_TEMPORARY) or _is_hidden(os.path.basename(name))]


def _is_hidden(name: str) -> bool:
    return name.startswith(".") and name != ".manifest"  # which folders of a manifest's files have


def _usual_names(names: list[str]) -> list[str]:
    """The names as they would be if the files of each manifest had their first name, which those of an old one took."""
    folders = Counter(found[1] for name in names if (found := re.fullmatch(r"([^/]*-files)(-\d+)?/", name)))
    alone = {name for name, count in folders.items() if count == 1}
    parts = [re.fullmatch(r"([^/]*-files)(-\d+)?(/.*)", name, re.DOTALL) for name in names]
    return [
        f"{found[1]}{found[3]}" if found is not None and found[1] in alone else name
        for name, found in zip(names, parts, strict=True)
    ]


def _differences(one: State, other: State) -> list[str]:
    return sorted(key for key in one.keys() | other.keys() if one.get(key) != other.get(key))


def _compare(target: str, state: State, reference: Reference, *, by_file: bool) -> tuple[str, list[str]]:
    """Whether a state is the old or the new one, and what is wrong with it."""
    old, new = reference.before[target], reference.after[target]
    if old == new == state:
        return "same", []
    for name, known in (("new", new), ("old", old)):
        if state == known:
            return name, []
    bad = [
        key for key in _differences(state, old) if state.get(key) != new.get(key) and not _is_on_the_way(key, old, new)
    ]
    if bad:
        return "bad", [f"{target}: neither old nor new: {bad[:5]}"]
    if by_file:
        return "mixed", []
    return "bad", [f"{target}: a part is old and a part is new"]


def _is_on_the_way(key: str, old: State, new: State) -> bool:
    """A folder in which something will be or was, or a file that has no name yet: leftovers are looked at elsewhere."""
    if key.endswith("/"):
        return any(name.startswith(key) for name in (*old, *new))
    return key not in old and key not in new and bool(_temporary([key]))


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1][-200:] if lines else "nothing was printed"
