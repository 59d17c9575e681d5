"""The browser of ``headrace browse``; needs textual."""

from __future__ import annotations

import asyncio
import signal
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from headrace.cli.common import message_of, printable
from headrace.codecs.small_picture import small_array
from headrace.errors import HeadraceError, MissingExtraError
from headrace.terminal import Screen, blend, draw

try:
    from rich.text import Text
    from textual.app import App, ComposeResult
    from textual.binding import Binding
    from textual.containers import Horizontal, Vertical, VerticalScroll
    from textual.widgets import DataTable, Footer, Header, Static
except ImportError:
    raise MissingExtraError("textual", extra="browse", needed_by="headrace browse") from None

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from headrace.cli.shelves import Entry, Shelf

__all__ = ["Browser"]

_FAILURES = (HeadraceError, OSError, ValueError, MemoryError)
_MAX_ROWS = 10_000
_DRAWN_AFTER_S = 0.1
_PROTOCOLS = ("kitty", "iterm2", "sixel")
_FORGET = "\x1b_Ga=d,d=A,q=2\x1b\\"  # kitty keeps pictures until it is told; others lose them to text


class Browser(App[None]):
    """A list beside what is in the entry under the cursor.

    Args:
        shelf: what to look at.
        place: where to begin.
        under_cursor: the name of the entry to begin with.
        screen: how the terminal shows pictures; by default as half blocks.
    """

    CSS = """
    DataTable { width: 1fr; }
    Vertical { width: 1fr; border-left: solid $primary; padding: 0 1; }
    #picture { height: auto; width: 100%; }
    """
    BINDINGS: ClassVar[list[Any]] = [
        ("right", "enter", "Open"),
        ("left,backspace", "up", "Up"),
        ("s", "sort", "Sort by size or name"),
        ("x", "extract", "Extract here"),
        ("q", "quit", "Quit"),
        Binding("ctrl+c", "quit", show=False, priority=True),
    ]

    def __init__(self, shelf: Shelf, place: str = "", under_cursor: str = "", *, screen: Screen | None = None) -> None:
        super().__init__()
        self.terminal = Screen(way="blocks") if screen is None else screen
        self.shelf = shelf
        self.place = place
        self.is_by_size = False
        self.entries: list[Entry] = []
        self.title = shelf.title
        self._first = under_cursor
        self._drawing: Any = None

    def compose(self) -> ComposeResult:
        """Lay out the screen."""
        yield Header()
        with Horizontal():
            yield DataTable(cursor_type="row")
            with Vertical():
                yield Static(id="picture", markup=False)
                with VerticalScroll(can_focus=False):
                    yield Static(id="preview", markup=False)
        yield Footer()

    def on_mount(self) -> None:
        """Fill the list for the first time; from now on, signals end the browser as ``q`` does."""
        for number in (signal.SIGTERM, signal.SIGHUP):
            asyncio.get_running_loop().add_signal_handler(number, self.exit, None, 128 + number)
        self.table.add_columns(*self.shelf.columns)
        self.show_place(under_cursor=self._first)
        self.table.focus()

    @property
    def table(self) -> Any:
        """The list."""
        return self.query_one(DataTable)

    def show_place(self, place: str | None = None, under_cursor: str = "") -> None:
        """Fill the list with another place, or with this one again; the cursor goes to an entry of this name.

        Where the place cannot be read, because the file is damaged or gone, what is shown stays.
        """
        place = self.place if place is None else place
        try:
            entries = self.shelf.entries(place, by_size=self.is_by_size)
            about = self.shelf.about(place)
        except _FAILURES as error:
            self.say_failure(error)
            return
        self.place = place
        self.entries = entries[:_MAX_ROWS]
        self.table.clear()
        for entry in self.entries:
            first, *others = entry.cells
            self.table.add_row(Text(first, justify="right"), *map(Text, others))
        left_out = len(entries) - len(self.entries)
        self.sub_title = about + (f", {left_out:,} not shown" if left_out else "")
        names = [entry.name for entry in self.entries]
        self.table.move_cursor(row=names.index(under_cursor) if under_cursor in names else 0)
        self.show_preview()

    @property
    def current(self) -> Entry | None:
        """The entry under the cursor."""
        row = self.table.cursor_row
        return self.entries[row] if self.entries and 0 <= row < len(self.entries) else None

    def show_preview(self) -> None:
        """Show what the entry under the cursor holds: a picture above the text."""
        entry, pixels = self.current, None
        columns, lines = max(8, self.size.width // 2 - 4), max(4, (self.size.height - 2) * 3 // 5)
        try:
            if entry is None:
                shown = "Nothing is in here."
            else:
                preview = self.shelf.preview(entry, self.terminal.box(columns, lines))
                shown, pixels = "\n".join(preview.lines), preview.pixels
        except _FAILURES as error:
            shown = printable(message_of(error))
        self.query_one("#preview", Static).update(Text(shown))
        self._show_picture(pixels, columns, lines)

    def _show_picture(self, pixels: npt.NDArray[np.uint8] | None, columns: int, lines: int) -> None:
        pane = self.query_one("#picture", Static)
        if self.terminal.way not in _PROTOCOLS:
            pane.update(Text() if pixels is None else _blocks(pixels, (columns, 2 * lines)))
            return
        used = 0 if pixels is None else -(-pixels.shape[0] // self.terminal.cell[1])
        pane.update(Text("\n".join([" " * columns] * used)))
        sequence = "" if pixels is None else draw(pixels, self.terminal).rstrip("\n")
        if self._drawing is not None:
            self._drawing.stop()
        # Later: what the library draws of these lines would lie over it.
        self._drawing = self.set_timer(_DRAWN_AFTER_S, partial(self._draw_over, sequence))

    def _draw_over(self, sequence: str) -> None:
        """Write a picture to where its pane is, past the library that draws the rest and leaves blank lines there."""
        area, driver = self.query_one("#picture", Static).region, self._driver
        if driver is None:
            return
        forget = _FORGET if self.terminal.way == "kitty" else ""
        driver.write(f"\x1b7{forget}\x1b[{area.y + 1};{area.x + 1}H{sequence}\x1b8")
        driver.flush()

    def on_resize(self, event: Any) -> None:
        """The terminal has another size."""
        if self.is_mounted and self.entries:
            self.show_preview()

    def on_data_table_row_highlighted(self, event: Any) -> None:
        """The cursor has moved."""
        self.show_preview()

    def on_data_table_row_selected(self, event: Any) -> None:
        """Enter was pressed."""
        self.action_enter()

    def action_enter(self) -> None:
        """Open the entry under the cursor."""
        entry = self.current
        if entry is not None and entry.is_dir:
            self.show_place(entry.place)

    def action_up(self) -> None:
        """Go to the place above."""
        if self.place:
            self.show_place(*self.shelf.above(self.place))

    def action_sort(self) -> None:
        """Sort by size, or by name again."""
        entry = self.current
        self.is_by_size = not self.is_by_size
        self.show_place(under_cursor="" if entry is None else entry.name)

    def action_extract(self) -> None:
        """Write the entry under the cursor below the current directory of the machine."""
        entry = self.current
        if entry is None:
            return
        try:
            said = self.shelf.extract(entry)
        except _FAILURES as error:
            self.say_failure(error)
        else:
            self.notify(said, markup=False)

    def say_failure(self, error: Exception) -> None:
        """Show for a moment what went wrong."""
        self.notify(printable(message_of(error)), severity="error", markup=False)


def _blocks(pixels: npt.NDArray[np.uint8], box: tuple[int, int]) -> Text:
    """A picture as half blocks; the library turns colours into those that the terminal has."""
    small = blend(small_array(pixels, box).pixels if max(pixels.shape[:2]) > 8 else pixels)
    text = Text(no_wrap=True)
    upper, lower = small[::2].tolist(), small[1::2].tolist()
    lower += upper[len(lower) :]  # of an odd number of rows, the last stands alone
    for row, below in zip(upper, lower, strict=True):
        for top, bottom in zip(row, below, strict=True):
            text.append("▀", f"rgb({top[0]},{top[1]},{top[2]}) on rgb({bottom[0]},{bottom[1]},{bottom[2]})")
        text.append("\n")
    return text
