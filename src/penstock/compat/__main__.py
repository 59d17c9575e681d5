"""Run a program with ``import ffcv`` (and the other originals) answered by penstock.

usage: python -m penstock.compat run SCRIPT [ARGUMENT...]
       python -m penstock.compat run -m MODULE [ARGUMENT...]
       python -m penstock.compat pytest [ARGUMENT...]
       python -m penstock.compat -m MODULE [ARGUMENT...]
"""

from __future__ import annotations

import os
import runpy
import sys

from penstock.compat.alias import available, install

_USAGE = __doc__ or ""


def main(arguments: list[str]) -> int:
    """Run what the command line says; gives the exit code."""
    words = arguments[1:] if arguments[:1] == ["run"] else arguments
    if not words or words[0] in ("-h", "--help"):
        print(_USAGE.strip())
        print(f"\npenstock answers for: {', '.join(available())}")
        return 0 if words else 2
    if words[0] == "-m" and len(words) < 2:
        print("-m needs the name of a module", file=sys.stderr)
        return 2
    install()
    if words[0] == "-m":
        _run_module(words[1], words[2:])
    elif words[0] == "pytest" and arguments[:1] != ["run"]:
        _run_module("pytest", words[1:])
    else:
        _run_script(words[0], words[1:])
    return 0


def _run_module(name: str, arguments: list[str]) -> None:
    sys.argv = [name, *arguments]
    sys.path[0] = os.getcwd()
    runpy.run_module(name, run_name="__main__", alter_sys=True)


def _run_script(path: str, arguments: list[str]) -> None:
    if not os.path.exists(path):
        raise SystemExit(f"{path} does not exist; name a Python script, or -m and a module")
    sys.argv = [path, *arguments]
    sys.path[0] = os.path.dirname(os.path.abspath(path))
    runpy.run_path(path, run_name="__main__")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
