"""Which pictures a terminal can show, and how large it is.

A terminal is asked, where that is safe, and its environment is looked at. Both say little in between: tmux and screen
pass nothing on to the terminal that they run in. ``HEADRACE_PICTURES`` names a way and ends the search.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import struct
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TextIO, get_args

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["WAYS", "Screen", "Way", "find_screen"]

Way = Literal["kitty", "iterm2", "sixel", "blocks", "blocks256", "text"]
"""How pictures are shown: by a protocol, as half blocks with 24-bit or 256 colours, or not at all."""
WAYS: tuple[str, ...] = get_args(Way)

_TIMEOUT_S = 0.5
_LONGEST_ANSWER = 4096
_USUAL = (80, 24)
_USUAL_CELL = (8, 16)
_KITTY_QUERY = b"\x1b_Gi=31,s=1,v=1,a=q,t=d,f=24;AAAA\x1b\\"
_CELL_QUERY = b"\x1b[16t"
_KIND_QUERY = b"\x1b[c"  # every terminal answers it, so that nobody waits for an answer to the others
_KIND = re.compile(rb"\x1b\[\?([\d;]*)c")
_CELL = re.compile(rb"\x1b\[6;(\d{1,4});(\d{1,4})t")
_KITTY_OK = b"\x1b_Gi=31;OK"
_SIXEL = b"4"


@dataclass(frozen=True, kw_only=True, slots=True)
class Screen:
    """A terminal: how it shows pictures, its columns and lines, and the pixels of one place."""

    way: Way = "text"
    columns: int = _USUAL[0]
    lines: int = _USUAL[1]
    cell: tuple[int, int] = _USUAL_CELL

    def box(self, columns: int, lines: int) -> tuple[int, int]:
        """The pixels that a picture may have in so many columns and lines."""
        if self.way in ("blocks", "blocks256"):
            return max(1, columns), max(2, 2 * lines)
        return max(1, columns * self.cell[0]), max(1, lines * self.cell[1])


def find_screen(
    stream: TextIO | None, answers: int | None = None, environment: Mapping[str, str] | None = None
) -> Screen:
    """Look at the terminal that a stream leads to.

    Args:
        stream: where pictures would be written; without a terminal there are none.
        answers: file descriptor of the terminal that its answers come from; None: it is not asked.
        environment: by default that of the process.
    """
    known = os.environ if environment is None else environment
    if stream is None or not stream.isatty():
        return Screen()
    columns, lines, cell = _size(stream.fileno())
    way = _wanted(known) or _by_environment(known)
    if way is None and answers is not None:
        answer = _ask(stream.fileno(), answers, _questions(known))
        way = _by_answer(answer)
        if cell is None and (found := _CELL.search(answer)):
            cell = _checked_cell(int(found[2]), int(found[1]))
    return Screen(way=way or _blocks(known), columns=columns, lines=lines, cell=cell or _USUAL_CELL)


def _wanted(known: Mapping[str, str]) -> Way | None:
    wanted = known.get("HEADRACE_PICTURES", "")
    if not wanted:
        return None
    for way in get_args(Way):
        if wanted == way:
            return way  # type: ignore[no-any-return]
    raise ValueError(f"HEADRACE_PICTURES must be one of {', '.join(WAYS)}, got {wanted!r}")


def _by_environment(known: Mapping[str, str]) -> Way | None:
    """What names itself; inside tmux and screen, these are the names of another terminal."""
    if known.get("TERM", "dumb") == "dumb":
        return "text"
    if _is_inside(known):
        return None
    program = known.get("TERM_PROGRAM", "")
    if "KITTY_WINDOW_ID" in known or known["TERM"] in ("xterm-kitty", "xterm-ghostty") or program == "ghostty":
        return "kitty"
    if program in ("iTerm.app", "WezTerm", "mintty") or known.get("LC_TERMINAL") == "iTerm2":
        return "iterm2"
    return None


def _is_inside(known: Mapping[str, str]) -> bool:
    return "TMUX" in known or "STY" in known or known.get("TERM", "").startswith(("screen", "tmux"))


def _blocks(known: Mapping[str, str]) -> Way:
    is_true = known.get("COLORTERM", "") in ("truecolor", "24bit") or "direct" in known.get("TERM", "")
    return "blocks" if is_true else "blocks256"


def _questions(known: Mapping[str, str]) -> bytes:
    # tmux and screen take the question about kitty's protocol for a new title of the window.
    return (b"" if _is_inside(known) else _KITTY_QUERY) + _CELL_QUERY + _KIND_QUERY


def _by_answer(answer: bytes) -> Way | None:
    if _KITTY_OK in answer:
        return "kitty"
    kind = _KIND.search(answer)
    return "sixel" if kind is not None and _SIXEL in kind[1].split(b";")[1:] else None


def _ask(out: int, answers: int, questions: bytes) -> bytes:
    """What the terminal answers until it has said of what kind it is; empty where nobody may ask."""
    answer = b""
    with contextlib.suppress(OSError), _quiet(answers) as is_quiet:
        if not is_quiet:
            return b""
        os.write(out, questions)
        end_s = time.monotonic() + _TIMEOUT_S
        while _KIND.search(answer) is None and len(answer) < _LONGEST_ANSWER:
            ready, _, _ = select.select([answers], [], [], max(0.0, end_s - time.monotonic()))
            if not ready:
                break
            answer += os.read(answers, 512)
    return answer


@contextlib.contextmanager
def _quiet(descriptor: int) -> Iterator[bool]:
    """Answers are neither shown nor held back until a line ends; False in the background, which may change nothing."""
    import termios
    import tty

    if not os.isatty(descriptor) or os.tcgetpgrp(descriptor) != os.getpgrp():
        yield False
        return
    before = termios.tcgetattr(descriptor)
    try:
        tty.setcbreak(descriptor, termios.TCSANOW)
        yield True
    finally:
        termios.tcsetattr(descriptor, termios.TCSANOW, before)


def _size(descriptor: int) -> tuple[int, int, tuple[int, int] | None]:
    """Columns, lines, and the pixels of a place where the terminal says them."""
    import fcntl
    import termios

    lines = columns = wide = high = 0
    with contextlib.suppress(OSError):
        answer = fcntl.ioctl(descriptor, termios.TIOCGWINSZ, bytes(8))
        lines, columns, wide, high = struct.unpack("HHHH", answer)
    cell = _checked_cell(wide // columns, high // lines) if columns and lines else None
    return columns or _USUAL[0], lines or _USUAL[1], cell


def _checked_cell(width: int, height: int) -> tuple[int, int] | None:
    return (width, height) if 2 <= width <= 100 and 4 <= height <= 200 else None
