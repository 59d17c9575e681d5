"""Writes the stub of the native extension, or checks that the committed one is up to date.

usage: python scripts/stubs.py [--check]
"""

from __future__ import annotations

import sys
from pathlib import Path

from nanobind.stubgen import StubGen

import headrace._native._core as core

STUB = Path(__file__).parents[1] / "src" / "headrace" / "_native" / "_core.pyi"


def main() -> int:
    generator = StubGen(core, quiet=True)
    generator.put(core)
    text = generator.get()
    if "--check" not in sys.argv[1:]:
        STUB.write_text(text)
        return 0
    if STUB.read_text() != text:
        print(f"{STUB.name} is out of date; run: make stubs", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
