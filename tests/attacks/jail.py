"""Runs everything that reads on a hostile file, each time in a process of its own, and notices what must not happen.

The jail is a folder with the hostile file, a ``home`` that belongs to the user, a ``tmp``, a working directory and an
``out``, the one place that may change. Findings are: a change outside of ``out``, a signal, a traceback, an exit code
or exception that is not ours, more than MAX_S seconds of CPU, more than MAX_WAIT_S altogether, more than MAX_MIB of
memory.

A ``Warden`` is a small process from which those processes are forked: to fork the large one of all tests takes several
times as long as what is tried. It ends with its standard input.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import io
import json
import os
import pkgutil
import resource
import shutil
import stat
import subprocess
import sys
import time
import traceback
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import headrace as hr
from headrace.cli import verbs
from headrace.cli.main import main
from headrace.compat.barecat import Barecat
from headrace.compat.barecat.exceptions import BarecatError
from headrace.compat.ffrecord import FileReader
from headrace.errors import HeadraceError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["QUICK", "Warden", "make_jail", "readers"]

MAX_S = 10
MAX_WAIT_S = 30.0
MAX_MIB = 900
QUICK = ("info", "verify --decode", "extract", "open", "Loader")
_FINE = (0, 1, 2)


def make_jail(folder: Path, make: Callable[[Path], Path]) -> Path:
    """The places of a jail, and the hostile file in it."""
    for name in ("evil", "home", "tmp", "work", "out"):
        (folder / name).mkdir()
    (folder / "home" / "settings").write_text("# nothing bad here, and it shall stay so\n")
    return make(folder / "evil")


def readers(path: Path, out: Path) -> dict[str, Callable[[], object]]:
    """What reads a file, by name; what writes does so below ``out``."""
    at, to = str(path), str(out)
    commands = {
        "info": ["info", at],
        "info --json": ["info", at, "--json"],
        "ls": ["ls", at],
        "ls -l": ["ls", "-l", at],
        "tree": ["tree", at],
        "find": ["find", at],
        "du": ["du", "-a", at],
        "cat": ["cat", at, "0"],
        "verify": ["verify", at],
        "verify --decode": ["verify", at, "--decode"],
        "shell": ["shell", at, "-c", "ls", "-c", "tree", "-c", "du", "-c", "verify"],
        "extract": ["extract", at, "-C", f"{to}/a", "-q"],
        "extract --force": ["extract", at, "-C", f"{to}/a", "-q", "--force"],
        "convert to tar": ["convert", at, f"{to}/a.tar", "-q"],
        "convert to zip": ["convert", at, f"{to}/a.zip", "-q"],
        "convert to beton": ["convert", at, f"{to}/a.beton", "-q"],
        "convert to ffr": ["convert", at, f"{to}/a.ffr", "-q"],
        "convert to barecat": ["convert", at, f"{to}/a.barecat", "-q"],
        "convert to folder": ["convert", at, f"{to}/b/", "-q"],
        "merge": ["merge", at, "-o", f"{to}/m.barecat", "-q"],
        "subset": ["subset", at, "-o", f"{to}/s.barecat", "-i", "**", "-q"],
        "sync": ["sync", at, f"{to}/c", "-q"],
        "create": ["create", f"{to}/c.barecat", at, "-q"],
        "create beton": ["create", f"{to}/c.beton", at, "-q"],
        **{f"convert to {kind}": ["convert", at, f"{to}/a.{kind}", "-q"] for kind in ("npz", "jsonl", "tfrecord")},
    }
    calls: dict[str, Callable[[], object]] = {name: _command(words) for name, words in commands.items()}
    calls["open"] = lambda: _open(at)
    calls["Loader"] = lambda: next(iter(hr.Loader(at, 1)), None)
    calls["index"] = lambda: _index(path, out)
    calls["hr.verify"] = lambda: hr.verify(at, decode=True)
    calls["Barecat"] = lambda: _barecat(at)
    calls["FileReader"] = lambda: _file_reader(at)
    return calls


def _command(words: list[str]) -> Callable[[], int]:
    return lambda: main(words)


def _open(path: str) -> None:
    with hr.open(path) as dataset:
        for i in range(min(3, len(dataset))):
            with contextlib.suppress(HeadraceError):
                dataset[i]
        list(dataset.keys[:3] if dataset.keys else [])
        repr(dataset)


def _index(path: Path, out: Path) -> int:
    """Index a copy: the one verb here that writes beside what it reads."""
    shutil.copytree(path.parent, out / "copy", symlinks=True, copy_function=_copy, dirs_exist_ok=True)
    return main(["index", str(out / "copy" / path.name), "-q"])


def _copy(source: str, target: str) -> None:
    """Copy a file; a pipe is made anew."""
    if stat.S_ISFIFO(os.lstat(source).st_mode):
        os.mkfifo(target)
    else:
        shutil.copy2(source, target, follow_symlinks=False)


def _barecat(path: str) -> None:
    with Barecat(path) as archive:
        for name in list(archive)[:5]:
            archive[name]
        list(archive.index.iter_all_paths())


def _file_reader(path: str) -> None:
    with contextlib.suppress(AssertionError):  # which is what FFRecord raises
        FileReader(path).read([0])


class Warden:
    """The small process; see above."""

    def __init__(self) -> None:
        root = Path(__file__).parents[2]
        paths = os.pathsep.join(filter(None, [str(root), os.environ.get("PYTHONPATH")]))
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.attacks.jail"],
            cwd=root,
            env={**os.environ, "PYTHONPATH": paths},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def findings(self, path: Path, jail: Path, wanted: tuple[str, ...] = ()) -> list[str]:
        """Run all readers, or those that are wanted; a line for each thing that must not happen."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([str(path), str(jail), wanted]) + "\n")
        self._process.stdin.flush()
        found: list[str] = json.loads(self._process.stdout.readline())
        return found

    def close(self) -> None:
        """End it."""
        self._process.communicate()


def _serve() -> None:
    from tests.attacks.hostile_formats import GOLDEN, SOUND

    for verb in pkgutil.iter_modules(verbs.__path__):  # what every child would import again
        importlib.import_module(f"{verbs.__name__}.{verb.name}")
    for golden in SOUND:
        next(iter(hr.Loader(GOLDEN / golden, 1)))
    for line in sys.stdin:
        path, jail, wanted = json.loads(line)
        print(json.dumps(list(_findings(Path(path), Path(jail), tuple(wanted)))), flush=True)


def _findings(path: Path, jail: Path, wanted: tuple[str, ...]) -> Iterator[str]:
    before = _snapshot(jail)
    for name, call in readers(path, jail / "out").items():
        if wanted and name not in wanted:
            continue
        shutil.rmtree(jail / "out")
        (jail / "out").mkdir()
        for line in _run(call, jail):
            yield f"{path.name}: {name}: {line}"
        after = _snapshot(jail)
        for place in sorted(before.keys() | after.keys()):
            if before.get(place) != after.get(place):
                yield f"{path.name}: {name}: {place} was changed: {before.get(place)} -> {after.get(place)}"
        before = after


def _run(call: Callable[[], object], jail: Path) -> Iterator[str]:
    log = jail / "out" / "log"
    child = os.fork()
    if child == 0:
        _be_the_child(call, jail, log)
    deadline = time.monotonic() + MAX_WAIT_S
    while True:
        done, status, usage = os.wait4(child, os.WNOHANG)
        if done:
            break
        if time.monotonic() > deadline:
            os.kill(child, 9)
            os.wait4(child, 0)
            yield f"it did not end in {MAX_WAIT_S} s"
            return
        time.sleep(0.005)
    text = log.read_text(errors="replace")
    if os.WIFSIGNALED(status):
        yield f"signal {os.WTERMSIG(status)}: {text[-200:]}"
    elif os.WEXITSTATUS(status) not in _FINE or "Traceback" in text:
        yield f"exit code {os.WEXITSTATUS(status)}: {text[-300:]}"
    if usage.ru_maxrss >> 10 > MAX_MIB:
        yield f"{usage.ru_maxrss >> 10} MiB of memory"


def _be_the_child(call: Callable[[], object], jail: Path, log: Path) -> None:
    code = 99
    try:
        resource.setrlimit(resource.RLIMIT_CPU, (MAX_S, MAX_S))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        fd = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC)
        empty = os.open(os.devnull, os.O_RDWR)
        os.dup2(empty, 0)
        os.dup2(empty, 1)
        os.dup2(fd, 2)
        sys.stdin, sys.stdout = io.StringIO(), io.TextIOWrapper(open(os.devnull, "wb"))  # noqa: SIM115
        sys.stderr = os.fdopen(os.dup(2), "w", errors="backslashreplace")
        os.chdir(jail / "work")
        warnings.simplefilter("ignore")
        os.environ.update(HOME=str(jail / "home"), TMPDIR=str(jail / "tmp"))
        code = _outcome(call)
        sys.stderr.flush()
    finally:
        os._exit(code)


def _outcome(call: Callable[[], object]) -> int:
    try:
        result = call()
    except (HeadraceError, BarecatError, OSError, KeyError, IndexError) as error:
        print(error, file=sys.stderr)
        return 2
    except SystemExit as error:
        return error.code if isinstance(error.code, int) else 2
    except BaseException:
        traceback.print_exc()
        return 98
    return result if isinstance(result, int) else 0


def _snapshot(jail: Path) -> dict[str, tuple[object, ...]]:
    found: dict[str, tuple[object, ...]] = {}
    for folder, folders, files in os.walk(jail):
        if Path(folder) == jail:
            folders.remove("out")
        for name in folders + files:
            path = Path(folder, name)
            status = path.lstat()
            kind = stat.S_IFMT(status.st_mode)
            content: object = os.readlink(path) if kind == stat.S_IFLNK else ""
            if kind == stat.S_IFREG and status.st_size < 1 << 24:
                content = hashlib.blake2b(path.read_bytes(), digest_size=8).hexdigest()
            facts = (status.st_mode, status.st_ino, status.st_size, status.st_mtime_ns, status.st_nlink, content)
            found[str(path.relative_to(jail))] = facts
    return found


if __name__ == "__main__":
    _serve()
