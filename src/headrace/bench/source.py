"""Which code a result has measured, so that one can be told from another."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.bench.suite import Suite

__all__ = ["fingerprint"]

_NATIVE = ("include", "core", "kernels", "gpu", "bindings")
_ENDINGS = (".py", ".cpp", ".hpp", ".cu", ".inc", ".h")
_DIGITS = 16


def fingerprint(suite: Suite, root: Path | None = None) -> str:
    """Of the sources that a suite measures, and of the suite itself; empty where the package lies in no source tree."""
    root = root or Path(__file__).parents[3]
    if not (root / "native").is_dir():
        return ""
    summed = hashlib.sha256()
    for path in _files(suite, root):
        summed.update(f"{path.relative_to(root)}\n".encode())
        summed.update(path.read_bytes())
    return summed.hexdigest()[:_DIGITS]


def _files(suite: Suite, root: Path) -> Iterator[Path]:
    package = root / "src" / "headrace"
    folders = [*(root / "native" / name for name in _NATIVE), *(package / room for room in suite.rooms)]
    for folder in folders:
        yield from sorted(path for path in folder.rglob("*") if path.suffix in _ENDINGS)
    yield package / "bench" / "suites" / f"{suite.name}.py"
