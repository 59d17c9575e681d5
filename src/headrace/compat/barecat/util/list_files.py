"""``python -m barecat.util.list_files ARCHIVE``: the paths of all files."""

from __future__ import annotations

import sys

from headrace.compat.barecat.core.barecat import Barecat

__all__ = ["main"]


def main(barecat_path: str) -> None:
    """Print the paths of all files."""
    with Barecat(barecat_path) as bc:
        for path in bc.files():
            print(path)


if __name__ == "__main__":
    main(sys.argv[1])
