"""Run a program with ``import ffcv`` (and the other originals) answered by headrace, or a command of theirs.

usage: python -m headrace.compat run SCRIPT [ARGUMENT...]
       python -m headrace.compat run -m MODULE [ARGUMENT...]
       python -m headrace.compat pytest [ARGUMENT...]
       python -m headrace.compat -m MODULE [ARGUMENT...]
       python -m headrace.compat COMMAND [ARGUMENT...]      (barecat, barecat-create, ...)

Processes that the program starts are served in the same way. The exit code is the program's own.
"""

from __future__ import annotations

import importlib.util
import os
import runpy
import sys

from headrace.compat.alias import available, install, share_with_programs
from headrace.compat.commands import COMMANDS, run_command, share_commands

_USAGE = __doc__ or ""


def main(arguments: list[str]) -> int:
    """Run what the command line says; gives the exit code."""
    words = arguments[1:] if arguments[:1] == ["run"] else arguments
    if not words or words[0] in ("-h", "--help"):
        print(_USAGE.strip())
        print(f"\nheadrace answers for: {', '.join(available())}")
        return 0 if words else 2
    if words[0] == "-m":
        return _run_module(words[1:])
    if words[0] == "pytest" and arguments[:1] != ["run"]:
        return _run_module(words)
    if words[0] in COMMANDS and not os.path.isfile(words[0]):
        return run_command(words)
    return _run_script(words)


def _run_module(words: list[str]) -> int:
    if not words:
        return _refuse("-m needs the name of a module")
    _begin(words, os.getcwd())
    if not _is_module(words[0]):
        return _refuse(f"there is no module named {words[0]}")
    runpy.run_module(words[0], run_name="__main__", alter_sys=True)
    return 0


def _run_script(words: list[str]) -> int:
    if not os.path.exists(words[0]):
        return _refuse(f"{words[0]} does not exist; name a Python script, or -m and a module")
    _begin(words, os.path.dirname(os.path.realpath(words[0])))
    runpy.run_path(words[0], run_name="__main__")
    return 0


def _begin(words: list[str], folder: str) -> None:
    sys.argv = words
    if not sys.flags.safe_path:
        sys.path[0] = folder
    install()
    share_with_programs()
    share_commands()


def _is_module(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError as error:
        if f"{name}.".startswith(f"{error.name}."):
            return False
        raise  # something that the package above it needs


def _refuse(problem: str) -> int:
    print(f"headrace.compat: {problem}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
