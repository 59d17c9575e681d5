"""What a terminal can show: text that does not disturb it, and pictures in the way that it knows."""

from headrace.terminal.pictures import blend, block_lines, draw, enlarge
from headrace.terminal.screen import Screen, find_screen
from headrace.terminal.text import cut, printable

__all__ = ["Screen", "blend", "block_lines", "cut", "draw", "enlarge", "find_screen", "printable"]
