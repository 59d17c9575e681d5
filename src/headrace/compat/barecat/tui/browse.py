"""An archive, looked at in the terminal; headrace's own browser does it."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from typing import Any

__all__ = ["BarecatBrowser", "main"]


class BarecatBrowser:
    """Shows directories with their sizes, and what is in files.

    Args:
        archive_path: the archive, which must exist.
    """

    def __init__(self, archive_path: str) -> None:
        if not os.path.exists(archive_path):
            raise FileNotFoundError(f"{archive_path} does not exist")
        self.archive_path = archive_path

    def run(self, stdscr: Any = None) -> int:
        """Run until the user ends it; gives the exit code. The screen of curses is not needed."""
        code: int = importlib.import_module("headrace.cli.main").main(["browse", self.archive_path])
        return code


def main() -> None:
    """Run the browser as a command of its own."""
    parser = argparse.ArgumentParser(description="Look at an archive in the terminal")
    parser.add_argument("archive", help="path of the archive")
    sys.exit(BarecatBrowser(parser.parse_args().archive).run())
