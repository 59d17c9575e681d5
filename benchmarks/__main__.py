"""Writes the pages and pictures that show benchmarks/results anew, and says which results are older than the code.

usage: python -m benchmarks            (nothing is measured; ``make bench`` measures first)
       python -m benchmarks --check    (nothing is written; exit code 1 if a result is older than the code it measures)
"""

from __future__ import annotations

import sys

from benchmarks.committed import old_suites
from benchmarks.pages import refresh


def main() -> int:
    """Refresh, or check."""
    if sys.argv[1:] not in ([], ["--check"]):
        print(__doc__)
        return 2
    is_check = sys.argv[1:] == ["--check"]
    if not is_check:
        refresh()
    old = old_suites()
    if old:
        print(f"older than the code that they measure: {', '.join(old)}")
        print(f"measure again with: make bench ARGS='{' '.join(old)}'")
    return 1 if old and is_check else 0


if __name__ == "__main__":
    sys.exit(main())
