"""What the command prints, for a terminal: names in an archive may hold anything, also what a terminal obeys."""

from __future__ import annotations

import contextlib
import io
import sys
from typing import TYPE_CHECKING

from headrace.cli.common import printable

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["safe_on_terminals"]


class _ShownText(io.TextIOWrapper):
    """Text in which everything but line ends and tabs that a terminal would obey is shown as an escape."""

    def write(self, text: str) -> int:
        """As any stream."""
        if not text.isprintable():
            lines = text.split("\n")
            super().write("\n".join("\t".join(map(printable, line.split("\t"))) for line in lines))
        else:
            super().write(text)
        return len(text)


@contextlib.contextmanager
def safe_on_terminals() -> Iterator[None]:
    """In this block, text that is printed to a terminal cannot control it; programs that read it get it as it is."""
    plain = sys.stdout
    if not (isinstance(plain, io.TextIOWrapper) and plain.isatty()):
        yield
        return
    plain.flush()
    shown = _ShownText(plain.buffer, encoding=plain.encoding, errors=plain.errors, line_buffering=True)
    sys.stdout = shown
    try:
        yield
    finally:
        sys.stdout = plain
        with contextlib.suppress(BrokenPipeError):
            shown.detach()
