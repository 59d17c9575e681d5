"""Work in a process of its own: memory and start-up are only known there.

``Child`` is a script that answers one JSON line for each line that it is sent, so that contenders can take turns
without starting anew. ``FreshProcesses`` is such a script of our own: it runs each function in a process that was
forked when the package was imported and nothing else had happened.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from typing import IO, TYPE_CHECKING, Any, Self

from headrace.bench.turns import in_turn
from headrace.errors import HeadraceError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import TracebackType

    from headrace.bench.suite import Tell

__all__ = ["Child", "ChildError", "FreshProcesses", "ask_in_turns"]

_SHOWN_CHARACTERS = 400
_PATIENCE_S, _LAST_PATIENCE_S = 3.0, 10.0
_SETTLED_S, _LOOK_S = 5.0, 0.1
_QUIET_LOOKS = 2  # on a busy machine a process may get no core for a moment
_SESSION, _USER, _SYSTEM = 3, 11, 12
"""Places in /proc/PID/stat, behind the name."""
_ERROR = re.compile(r"[\w.]+(Error|Exception|Exit)\b")


class ChildError(HeadraceError, RuntimeError):
    """A process of a contender failed; the message has the last lines that it said."""


class Child:
    """A process that answers a line of JSON for each line of JSON; used as a context manager, it ends with the block.

    Args:
        command: words of the command.
        cores: on which cores it and its children run; by default on those of this process.
    """

    def __init__(self, command: Sequence[str], *, cores: Sequence[int] = ()) -> None:
        self._name = command[2] if command[1] == "-m" else os.path.basename(command[1])
        # What it leaves in the folder for temporary files goes with it; names of sockets in there must be short.
        self._temporary = tempfile.TemporaryDirectory(prefix="hr-", ignore_cleanup_errors=True)
        self._errors = open(os.memfd_create("errors"), "w+")  # noqa: SIM115
        self._process = subprocess.Popen(
            [sys.executable, "-c", _ON_CORES, json.dumps(list(cores)), *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            env=os.environ | {"PYTHONUNBUFFERED": "1", "TMPDIR": self._temporary.name},
            start_new_session=True,  # Ctrl-C is for the parent, which then ends its children
        )

    def ask(self, question: object = None) -> dict[str, Any]:
        """Send one line and wait for the answer; ChildError when the process ends instead."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(question) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise self._failure() from None
        for line in self._process.stdout:
            if line.startswith("{"):  # packages print all kinds of things
                answer: dict[str, Any] = json.loads(line)
                return answer
        raise self._failure()

    def settle(self, longest_s: float = _SETTLED_S) -> None:
        """Wait until the process and its children rest, but not longer than so long.

        Some loaders go on after an epoch and fill buffers for the next: that must not slow the contender after them.
        """
        end_s, before, quiet = time.monotonic() + longest_s, _session_ticks(self._process.pid), 0
        while quiet < _QUIET_LOOKS and time.monotonic() < end_s:
            time.sleep(_LOOK_S)
            now = _session_ticks(self._process.pid)
            quiet = quiet + 1 if now - before <= 1 else 0
            before = now

    def _failure(self) -> ChildError:
        self._process.wait()
        self._errors.seek(0)
        said = _last_words(self._errors.read())
        return ChildError(f"{self._name} ended with code {self._process.returncode}: {said or 'it said nothing'}")

    def close(self) -> None:
        """End the process, and what it has started: by itself or by Ctrl-C, as some leave things behind else."""
        assert self._process.stdin is not None
        _close(self._process.stdin)
        try:
            if not self._has_ended(_PATIENCE_S):
                os.kill(self._process.pid, signal.SIGINT)
                self._has_ended(_LAST_PATIENCE_S)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            for stream in (self._process.stdout, self._errors):
                if stream is not None:
                    stream.close()
            self._temporary.cleanup()

    def _has_ended(self, patience_s: float) -> bool:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(patience_s)
        return self._process.returncode is not None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _session_ticks(session: int) -> int:
    """Time of the processor that the processes of a session have had, in the kernel's ticks."""
    ticks = 0
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open(f"/proc/{name}/stat") as file:
            facts = file.read().rpartition(")")[2].split()
            if int(facts[_SESSION]) == session:
                ticks += int(facts[_USER]) + int(facts[_SYSTEM])
    return ticks


def _last_words(text: str) -> str:
    """What a traceback ends with, or the last that was said."""
    lines = text.strip().splitlines()
    errors = [number for number, line in enumerate(lines) if _ERROR.match(line)]
    words = " ".join(" ".join(lines[errors[-1] :] if errors else lines).split())
    return words[:_SHOWN_CHARACTERS] if errors else words[-_SHOWN_CHARACTERS:]


def _close(stream: IO[str]) -> None:
    with contextlib.suppress(BrokenPipeError):  # what was still held for a process that has ended
        stream.close()


class FreshProcesses(Child):
    """Runs functions of this package, each in a process of its own.

    Args:
        modules: further modules that are imported before; those that are not installed are left out.
    """

    def __init__(self, modules: Sequence[str] = ()) -> None:
        super().__init__([sys.executable, "-m", "headrace.bench.child", *modules])

    def call(self, function: Callable[..., dict[str, Any]], **arguments: Any) -> dict[str, Any]:
        """Run a function of a module with arguments that go into JSON, and give what it returns."""
        return self.ask({"module": function.__module__, "name": function.__qualname__, "arguments": arguments})


def ask_in_turns(
    commands: Mapping[str, Sequence[str]],
    question: object,
    rounds: int,
    *,
    cores: int,
    tell: Tell = lambda what: None,
) -> tuple[dict[str, list[dict[str, Any]]], dict[str, str]]:
    """Ask processes the same in turns; gives what each has answered in each round, and why others have not.

    All stay on the same cores, the last so many of this process, and each begins when the one before has come to rest.
    The first round does not count.
    """
    chosen = sorted(os.sched_getaffinity(0))[-cores:]
    answers: dict[str, list[dict[str, Any]]] = {name: [] for name in commands}
    failures: dict[str, str] = {}
    with contextlib.ExitStack() as stack:
        children = {name: stack.enter_context(Child(words, cores=chosen)) for name, words in commands.items()}
        for turn in range(1 + rounds):
            tell(f"round {turn} of {rounds}")
            for name in in_turn([name for name in children if name not in failures], turn):
                try:
                    answers[name].append(children[name].ask(question))
                    children[name].settle()
                except ChildError as error:
                    failures[name] = str(error)
    return {name: found[1:] for name, found in answers.items() if name not in failures}, failures


# The cores are set before anything of the command runs: threads that exist already would keep theirs.
_ON_CORES = (
    "import json, os, sys; cores = json.loads(sys.argv[1]); cores and os.sched_setaffinity(0, cores); "
    "os.execvp(sys.argv[2], sys.argv[2:])"
)


def main() -> None:
    """Answer every line of standard input with what a function returns, until there are no more."""
    for name in sys.argv[1:]:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    for line in sys.stdin:
        told = json.loads(line)
        function = getattr(importlib.import_module(told["module"]), told["name"])
        if (process := os.fork()) == 0:
            print(json.dumps(function(**told["arguments"])), flush=True)
            os._exit(0)
        _, status = os.waitpid(process, 0)
        if status:
            sys.exit(f"{told['module']}.{told['name']} ended with status {status}")


if __name__ == "__main__":
    main()
