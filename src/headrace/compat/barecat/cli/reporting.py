"""How commands end: errors as one line and an exit code."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import sys
from typing import TYPE_CHECKING

from headrace.compat.barecat.exceptions import BarecatError
from headrace.errors import HeadraceError
from headrace.transfer.containers import translate_errors

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["fail", "report_errors"]


def fail(problem: str) -> None:
    """Say what is wrong and leave with code 1."""
    print(f"Error: {problem}", file=sys.stderr)
    sys.exit(1)


@contextlib.contextmanager
def report_errors() -> Iterator[None]:
    """Run a command in this block: code 1 for errors, 130 for Ctrl-C, and nothing when the reader goes away."""
    try:
        with translate_errors("the input"):
            yield
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # not our business
    except KeyboardInterrupt:
        sys.exit(130)
    except (BarecatError, HeadraceError, OSError, ValueError, LookupError, sqlite3.Error) as error:
        fail(str(error.args[0] if isinstance(error, KeyError) and error.args else error))
