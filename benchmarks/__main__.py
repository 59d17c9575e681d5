"""Runs benchmarks, keeps their results, and puts them into the README, the page of results and other pages.

usage: python -m benchmarks [SUITE...]     (all suites by default)
       python -m benchmarks.refresh        (nothing is measured; pages and pictures are written anew)

A suite is a module of benchmarks/suites, or one of ``headrace bench``, whose page goes beside its figures.

A peer that is not installed is left out, and so is a suite that needs a GPU where there is none. FFCV and Barecat need
environments of their own: name their interpreters in HEADRACE_FFCV_PYTHON and HEADRACE_BARECAT_PYTHON. Photographs come
from the folder in HEADRACE_PHOTOS, or are made up.
"""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
import sys

from benchmarks import suites
from benchmarks.harness import RESULTS, environment, photographs_folder
from benchmarks.refresh import refresh
from headrace.bench import SUITES
from headrace.cli.main import main as command


def main() -> int:
    names = sys.argv[1:] or [*sorted(m.name for m in pkgutil.iter_modules(suites.__path__)), *SUITES]
    RESULTS.mkdir(exist_ok=True)
    for name in names:
        if name in SUITES:
            run_for_users(name)
            continue
        suite = importlib.import_module(f"benchmarks.suites.{name}")
        print(f"== {name}: {suite.QUESTION}", flush=True)
        if reason := getattr(suite, "missing", str)():  # such as a GPU; what was measured elsewhere stays
            print(f"   left out: {reason}", flush=True)
            continue
        rows = suite.run()
        for row in rows:
            print(f"   {row['what']:<58} {row['text']}", flush=True)
        result = {"question": suite.QUESTION, "environment": environment(), "rows": rows}
        (RESULTS / f"{name}.json").write_text(json.dumps(result, indent=1) + "\n")
    refresh()
    return 0


def run_for_users(name: str) -> None:
    """A suite of the command, with the photographs at hand."""
    folder = photographs_folder()
    words = ["bench", name, "--out", os.path.relpath(RESULTS)]  # the command is kept, and read on other machines
    if folder is not None:
        words += ["--images", os.path.relpath(folder)]
    if code := command(words):
        sys.exit(code)


if __name__ == "__main__":
    sys.exit(main())
