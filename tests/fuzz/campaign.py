"""Coverage-guided fuzzing of the Python targets: processes of atheris, watched, and a table of what came of them.

usage: python -m tests.fuzz.campaign [--seconds S] [--jobs N] [--out FOLDER] [--timeout S] [TARGET...]

The campaign ends by itself after its time, whatever a target does: a process that stands still in one input is killed,
which is a finding, and all are killed at the end. FOLDER gets, while it goes on:

    TARGET/             inputs worth keeping
    findings/           inputs that raised, crashed, took too long or too much memory
    logs/TARGET-K.log   what the K-th process for a target prints
    summary.txt         the table, every minute and at the end
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import hashlib
import importlib.metadata
import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tests.fuzz.note import Note

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

NAMES = (
    *("beton", "ffr", "packed", "annex", "npy", "npz", "archive", "tar", "zip", "pickle", "array", "picture"),
    *("parquet", "arrow", "h5", "lmdb", "msgpack", "jsonl", "csv", "tfrecord", "rec", "idx", "wds", "places"),
)
ROOT = Path(__file__).parents[2]
SUMMARY_S = 60.0
START_S = 60.0  # for importing the package and for the first inputs, all of which are instrumented
_MEMORY = Path("/dev/shm")
_PR_SET_PDEATHSIG = 1


def _parse(words: list[str] | None) -> argparse.Namespace:
    about = (__doc__ or "").partition("\n")[0]
    cores = len(os.sched_getaffinity(0))
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.campaign", description=about)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"of {', '.join(NAMES)} (default: all)")
    parser.add_argument("--seconds", type=float, default=60.0, metavar="S", help="for all together (default: 60)")
    parser.add_argument("--jobs", type=int, default=cores, metavar="N", help="processes at a time (default: cores)")
    parser.add_argument("--out", type=Path, default=Path("build/fuzzing"), metavar="FOLDER", help="(%(default)s)")
    parser.add_argument("--timeout", type=float, default=30.0, metavar="S", help="for one input (default: 30)")
    parser.add_argument("--memory", type=int, default=4096, metavar="MIB", help="for one process (default: 4096)")
    args = parser.parse_args(words)
    for name in args.targets:
        if name not in NAMES:
            parser.error(f"there is no target {name!r}; there are {', '.join(NAMES)}")
    args.targets = args.targets or list(NAMES)
    return args


@dataclass
class Worker:
    """A process for a target, started again when it ended before its time."""

    target: str
    number: int
    note: Note
    log: Path
    starts: int = 0
    process: subprocess.Popen[bytes] | None = None
    started_s: float = 0.0
    problems: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        return f"{self.target}-{self.number}"


class Campaign:
    """Runs workers in rounds, if there are more targets than processes.

    Args:
        args: the options.
        temp: for files of targets.
    """

    def __init__(self, args: argparse.Namespace, temp: Path) -> None:
        self._args, self._temp = args, temp
        self._python, self._environment = _python(temp)
        self._out: Path = args.out.resolve()
        self._began_s = time.monotonic()
        self._known = set(self._found())
        self._workers: dict[str, Worker] = {}
        (self._out / "findings").mkdir(parents=True, exist_ok=True)
        (self._out / "logs").mkdir(exist_ok=True)

    def run(self) -> None:
        """All rounds; every process has ended then."""
        targets, jobs = self._args.targets, self._args.jobs
        rounds = [targets[k : k + jobs] for k in range(0, len(targets), jobs)]
        summary_s = time.monotonic() + SUMMARY_S
        for k, names in enumerate(rounds):
            until_s = self._began_s + self._args.seconds * (k + 1) / len(rounds)
            workers = [self._worker(names[i % len(names)], i // len(names)) for i in range(jobs)]
            try:
                while (now_s := time.monotonic()) < until_s:
                    for worker in workers:
                        self._watch(worker, now_s, until_s)
                    if now_s >= summary_s:
                        summary_s += SUMMARY_S
                        self.summarize()
                    time.sleep(min(0.5, max(0.0, until_s - time.monotonic())))
            finally:
                for worker in workers:
                    _kill(worker)

    def _worker(self, target: str, number: int) -> Worker:
        name = f"{target}-{number}"
        (self._out / target).mkdir(exist_ok=True)
        log = self._out / "logs" / f"{name}.log"
        log.unlink(missing_ok=True)
        self._workers[name] = Worker(target, number, Note(self._temp / f"{name}.note"), log)
        return self._workers[name]

    def _watch(self, worker: Worker, now_s: float, until_s: float) -> None:
        """Start it, or see that it goes on."""
        if worker.process is None:
            self._start(worker, now_s, until_s)
            return
        status = worker.process.poll()
        if status is not None:
            worker.process = None
            if status != 0 and worker.note.begun_s:
                self._keep(worker, f"ended with {status}")
            elif status != 0:
                worker.problems.append(f"{worker.name} ended with {status} before an input: see {worker.log}")
            return
        begun_s = worker.note.begun_s or (worker.started_s + START_S if worker.note.runs == 0 else now_s)
        if now_s - begun_s > self._args.timeout + 5:  # libFuzzer did not notice, or could not do anything about it
            is_in_input = bool(worker.note.begun_s)
            worker.process.send_signal(signal.SIGQUIT)  # where it stands goes into the log
            time.sleep(0.5)
            _kill(worker)
            if is_in_input:
                self._keep(worker, "did not end")
            else:
                worker.problems.append(f"{worker.name} did not begin: see {worker.log}")

    def _start(self, worker: Worker, now_s: float, until_s: float) -> None:
        if until_s - now_s < 2 or (worker.note.runs == 0 and worker.starts >= 3):
            return
        worker.starts += 1
        worker.started_s = now_s
        worker.note.end()
        command = [
            *(*self._python, "-m", "tests.fuzz.worker", worker.target),
            *(os.fspath(self._temp / f"{worker.name}.note"), os.fspath(self._out / worker.target)),
            f"-max_total_time={max(1, int(until_s - now_s))}",
            f"-timeout={max(1, round(self._args.timeout))}",
            f"-rss_limit_mb={self._args.memory}",
            f"-seed={1 + worker.number + 1000 * worker.starts}",
            f"-artifact_prefix={self._out}/findings/{worker.target}-",
            "-reload=10",
            "-print_final_stats=1",
        ]
        with open(worker.log, "ab", buffering=0) as log:
            log.write(f"start {worker.starts}\n".encode())
            worker.process = subprocess.Popen(
                command,
                cwd=ROOT,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=_die_with_parent,
            )

    def _keep(self, worker: Worker, why: str) -> None:
        """The input that a process ended in; libFuzzer has kept it already if it could, under the same digest."""
        data = worker.note.input
        digest = hashlib.sha1(data, usedforsecurity=False).hexdigest()
        if not any(name.endswith(digest) for name in self._found()):
            (self._out / "findings" / f"{worker.target}-killed-{digest}").write_bytes(data)
        worker.problems.append(f"{worker.name} {why} in an input of {len(data)} bytes, {digest}: see {worker.log}")

    def _found(self) -> list[str]:
        folder = self._out / "findings"
        return sorted(os.listdir(folder)) if folder.is_dir() else []

    def findings(self) -> list[str]:
        """What is new in the folder of findings."""
        return [name for name in self._found() if name not in self._known]

    def summarize(self) -> int:
        """Print the table, and write it to a file; gives the number of findings and of processes that failed."""
        found = self.findings()
        lines = [f"{'target':10} {'runs':>12} {'findings':>9} {'coverage':>9} {'kept':>7}"]
        total, problems = 0, []
        for target in self._args.targets:
            workers = [worker for worker in self._workers.values() if worker.target == target]
            runs = sum(worker.note.runs for worker in workers)
            count = sum(name.startswith(f"{target}-") for name in found)
            coverage = max((_coverage(worker.log) for worker in workers), default=0)
            kept = len(os.listdir(self._out / target)) if (self._out / target).is_dir() else 0
            lines.append(f"{target:10} {runs:12,} {count:9,} {coverage:9,} {kept:7,}")
            total += runs
            problems += [problem for worker in workers for problem in worker.problems]
        lines.append(f"{'all':10} {total:12,} {len(found):9,}   after {time.monotonic() - self._began_s:.0f} s")
        lines += [f"finding: {self._out}/findings/{name}" for name in found]
        lines += problems
        text = "\n".join(lines)
        (self._out / "summary.txt").write_text(text + "\n")
        print(text, flush=True)
        return len(found) + len(problems)


def _coverage(log: Path) -> int:
    """The last number that libFuzzer gave; the log's end is enough."""
    with contextlib.suppress(OSError), open(log, "rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - 65536))
        numbers = re.findall(rb" cov: (\d+)", file.read())
        return int(numbers[-1]) if numbers else 0
    return 0


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _kill(worker: Worker) -> None:
    process, worker.process = worker.process, None
    if process is not None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _is_editable() -> bool:
    try:
        text = importlib.metadata.distribution("headrace").read_text("direct_url.json")
    except importlib.metadata.PackageNotFoundError:  # found by PYTHONPATH alone
        return False
    return bool(json.loads(text or "{}").get("dir_info", {}).get("editable"))


def _python(temp: Path) -> tuple[list[str], dict[str, str]]:
    """The interpreter for the processes, and their environment.

    atheris instruments what ordinary loaders import. The finder of an editable install is not one: a plain copy of the
    package is used then, and -S leaves that finder out.
    """
    files = temp / "files"
    files.mkdir()
    environment = {**os.environ, "TMPDIR": os.fspath(files), "PYTHONUNBUFFERED": "1"}
    if not _is_editable():
        path = os.pathsep.join([os.fspath(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
        return [sys.executable], environment | {"PYTHONPATH": path}
    spec = importlib.util.find_spec("headrace._native._core")
    assert spec is not None
    assert spec.origin is not None
    site = temp / "site"
    shutil.copytree(ROOT / "src" / "headrace", site / "headrace", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(spec.origin, site / "headrace" / "_native")
    packages = dict.fromkeys((sysconfig.get_path("purelib"), sysconfig.get_path("platlib")))
    path = os.pathsep.join([os.fspath(site), os.fspath(ROOT), *packages])
    return [sys.executable, "-S"], environment | {"PYTHONPATH": path}


@contextlib.contextmanager
def _temporary() -> Iterator[Path]:
    """A folder in memory if there is room: targets write thousands of files a second, and cannot tidy up."""
    has_room = _MEMORY.is_dir() and shutil.disk_usage(_MEMORY).free > 4 << 30
    with tempfile.TemporaryDirectory(prefix="headrace-fuzz.", dir=_MEMORY if has_room else None) as folder:
        yield Path(folder)


def main(words: list[str] | None = None) -> int:
    """Run a campaign; 1 if there are findings."""
    args = _parse(words)
    if importlib.util.find_spec("atheris") is None:
        print("atheris is missing: pip install atheris", file=sys.stderr)
        return 77

    def stop(number: int, frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    signal.signal(signal.SIGTERM, stop)
    with _temporary() as temp:
        campaign = Campaign(args, temp)
        problems = 0
        try:
            campaign.run()
        finally:
            problems = campaign.summarize()
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
